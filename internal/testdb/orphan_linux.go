package testdb

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Folders of servers whose process was killed stay behind, at 40 MB each. So each folder has a file that its process keeps
// locked, and the next process that starts a server removes those that nobody locks any more.
const ownerFile = "owner"

// claim locks a new folder for as long as this process lives. The descriptor is never closed on purpose.
func claim(dir string) error {
	hidden := filepath.Join(dir, ownerFile+".new") // the file appears under its name only when it is locked
	fd, err := syscall.Open(hidden, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(err, syscall.Close(fd))
	}
	return os.Rename(hidden, filepath.Join(dir, ownerFile))
}

var sweepOnce = sync.OnceFunc(func() { sweep(os.TempDir()) })

// sweep removes what killed processes left behind. What cannot be removed is left to the next one.
func sweep(parent string) {
	files, _ := filepath.Glob(filepath.Join(parent, folderPrefix+"*", ownerFile))
	for _, file := range files {
		if !abandoned(file) {
			continue
		}
		dir := filepath.Dir(file)
		entries, _ := os.ReadDir(dir)
		var errs []error
		for _, e := range entries {
			if e.Name() != ownerFile { // that one goes last, so that a failure is tried again
				errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
		if errors.Join(errs...) == nil {
			_ = os.RemoveAll(dir)
		}
	}
}

func abandoned(file string) bool {
	fd, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
