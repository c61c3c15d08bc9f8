package wire

import (
	"testing"
	"time"
)

// Many alarms at once must not wait for each other: a network has room for all.
func TestAlarmsDoNotWaitForEachOther(t *testing.T) {
	const alarms, rounds, delay = 64, 20, 5 * time.Millisecond
	begun := time.Now()
	ended := make(chan error)
	for range alarms {
		go func() {
			a, err := newAlarm()
			for range rounds {
				if err == nil {
					due := time.Now().Add(delay)
					if err = a.until(due); time.Now().Before(due) {
						t.Error("an alarm came early")
					}
				}
			}
			a.close()
			ended <- err
		}()
	}
	for range alarms {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(begun); took > 10*rounds*delay {
		t.Errorf("%d alarms of %v, %d times one after the other, took %v", alarms, delay, rounds, took)
	}
}
