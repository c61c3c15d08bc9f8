package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// ErrNoBinaries is the error of starting a server whose binaries are not on the machine, so that installing them helps.
var ErrNoBinaries = errors.New("no binaries")

// find looks for a binary in the folder that env names, in the search path, and in the folders of the patterns, and there
// takes the newest.
func find(name, env string, patterns ...string) (string, error) {
	if dir := os.Getenv(env); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s is set, but: %w", env, err)
		}
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		// The other programs of the server are beside the real file.
		if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) == name {
			return real, nil
		}
		return path, nil
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(filepath.Join(pattern, name)); len(found) > 0 {
			return newest(found), nil
		}
	}
	return "", fmt.Errorf("%w: there is no %s in the search path (%s may name its folder)", ErrNoBinaries, name, env)
}

var number = regexp.MustCompile(`[0-9]+`)

// newest returns the path with the highest version in it: as text, 9.6 would be newer than 17.
func newest(paths []string) string {
	return slices.MaxFunc(paths, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
}

func numbers(path string) []int {
	var all []int
	for _, digits := range number.FindAllString(path, -1) {
		n, err := strconv.Atoi(digits)
		if err != nil { // more digits than a version has
			return nil
		}
		all = append(all, n)
	}
	return all
}

var version = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// versionOf asks a binary for its version. It returns "" if the answer has none.
func versionOf(ctx context.Context, bin string) string {
	out, err := exec.CommandContext(ctx, bin, "--version").Output()
	if err != nil {
		return ""
	}
	return version.FindString(string(out))
}
