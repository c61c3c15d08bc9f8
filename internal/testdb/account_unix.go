//go:build unix

package testdb

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// An account is a user of the machine to run a server as. Nil is the current one.
type account struct{ uid, gid uint32 }

// unprivileged returns the account to run PostgreSQL as, since it refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

// own gives a folder to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// run makes cmd run as the account.
func (a *account) run(cmd *exec.Cmd) {
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
}
