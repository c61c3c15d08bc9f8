package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// removeNaive looks first. between stands for what another process does in the meantime.
func removeNaive(path string, between func()) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	between()
	return os.Remove(path)
}

// remove acts. Whoever removed the file, it is gone.
func remove(path string, between func()) error {
	between()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func unlink(context.Context) (naive, ours int, err error) {
	dir, err := os.MkdirTemp("", "holdfast-toctou-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, way := range []struct {
		remove func(string, func()) error
		errs   *int
	}{{removeNaive, &naive}, {remove, &ours}} {
		path := filepath.Join(dir, "job.lock")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return naive, ours, err
		}
		if way.remove(path, func() { _ = os.Remove(path) }) != nil {
			*way.errs++
		}
	}
	return naive, ours, nil
}
