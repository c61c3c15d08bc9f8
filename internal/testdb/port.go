package testdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Servers listen below the ports that kernels hand to clients. A client could else take the port of a server that is
// stopped for a moment, or, on its way to that server, connect to itself.
const (
	firstPort = 15000
	endPort   = 32768
)

// portTries is how many ports are tried. Of thousands, few are taken.
const portTries = 100

// FreePort returns a port of this machine that nobody listens on. Another process can take it before the caller does, so
// the caller tries again with another.
func FreePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	var errs []error
	for range portTries {
		port := firstPort + rand.IntN(endPort-firstPort) //nolint:gosec // not a secret
		l, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("testdb: no free port: %w", errors.Join(errs...))
}
