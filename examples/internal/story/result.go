package story

import "encoding/json"

// Result is what a story found.
type Result struct {
	Story   string `json:"story"`
	Hazard  string `json:"hazard"`
	Backend string `json:"backend"`
	// Operations is the number of requests, those of the naive controls included.
	Operations int `json:"operations"`
	// NaiveDamage is what the naive control did wrong; of several, the one that did least.
	NaiveDamage int `json:"naive_damage"`
	// Damage is what ours did wrong.
	Damage int  `json:"damage"`
	OK     bool `json:"ok"`
	// Kills is how often server processes were killed.
	Kills int `json:"kills,omitempty"`
	// NotRun says why the story did not run. There are no numbers then.
	NotRun string `json:"not_run,omitempty"`
	// Error says why the story ended before its end. The numbers are then those found until there.
	Error string `json:"error,omitempty"`
}

// Judge sets OK: our way must be without damage, and the naive way must show that there was something to damage.
func (r *Result) Judge() {
	r.OK = r.NotRun == "" && r.Error == "" && r.Damage == 0 && r.NaiveDamage > 0
}

// MarshalJSON writes null for the numbers of a story that did not run: 0 would look like a finding.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result // without this method
	if r.NotRun == "" {
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		plain
		Backend     *string `json:"backend"`
		Operations  *int    `json:"operations"`
		NaiveDamage *int    `json:"naive_damage"`
		Damage      *int    `json:"damage"`
		OK          *bool   `json:"ok"`
	}{plain: plain(r)})
}
