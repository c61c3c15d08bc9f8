package fault

import (
	"context"
	"database/sql/driver"
	"errors"
)

// connectModes are without errors after the effect, which nobody can see of a connection.
var connectModes = []Mode{CutBefore, CancelBefore, CancelAfter, CrashBefore, CrashAfter}

// Connector returns a connector of database/sql whose connections the injector breaks. Panic and Goexit are for Exec alone:
// database/sql does not give back a connection whose driver panics elsewhere, since none does.
func (in *Injector) Connector(c driver.Connector) driver.Connector {
	return &connector{in: in, inner: c}
}

type connector struct {
	in    *Injector
	inner driver.Connector
}

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var made *conn
	err := c.in.do("connect", connectModes, func() {
		if made != nil {
			made.close()
		}
	}, func() error {
		inner, err := c.inner.Connect(ctx)
		if err != nil {
			return err
		}
		made = &conn{in: c.in, Conn: inner}
		c.in.OnStop(made.shut)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// connected translates what a driver says about a connection that was cut: database/sql runs a statement again that was
// not sent.
func connected(err error) error {
	if errors.Is(err, ErrUnsent) {
		return driver.ErrBadConn
	}
	return err
}
