package testdb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// A redisConn speaks the few commands that this package needs, so that it needs no client library.
type redisConn struct {
	conn   net.Conn
	reader *bufio.Reader
}

func dialRedis(ctx context.Context, address string) (*redisConn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "redis" {
		return nil, fmt.Errorf("%s must be of the form redis://user:password@host:port/database", RedisEnv)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	c := &redisConn{conn: conn, reader: bufio.NewReader(conn)}
	if err := c.login(u); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *redisConn) login(u *url.URL) error {
	if password, ok := u.User.Password(); ok {
		args := []string{"AUTH", u.User.Username(), password}
		if u.User.Username() == "" {
			args = []string{"AUTH", password}
		}
		if _, err := c.do(args...); err != nil {
			return err
		}
	}
	if database := strings.Trim(u.Path, "/"); database != "" {
		if _, err := c.do("SELECT", database); err != nil {
			return err
		}
	}
	return nil
}

func (c *redisConn) close() { _ = c.conn.Close() }

// do sends a command and returns its answer: a string, a []any, or nil.
func (c *redisConn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *redisConn) read() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return nil, fmt.Errorf("redis: %s", rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || kind != '$' && kind != '*' {
		return nil, fmt.Errorf("redis answered %q", line)
	}
	if n < 0 {
		return nil, nil
	}
	if kind == '$' {
		text := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(c.reader, text); err != nil {
			return nil, err
		}
		return string(text[:n]), nil
	}
	items := make([]any, n)
	for i := range items {
		if items[i], err = c.read(); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// deletePrefix deletes the keys that begin with prefix, which has no character that is special in a pattern.
func (c *redisConn) deletePrefix(prefix string) error {
	for cursor := "0"; ; {
		reply, err := c.do("SCAN", cursor, "MATCH", prefix+"*", "COUNT", "1000")
		if err != nil {
			return err
		}
		page, ok := reply.([]any)
		if !ok || len(page) != 2 {
			return fmt.Errorf("redis answered %v to SCAN", reply)
		}
		keys, _ := page[1].([]any)
		for _, key := range keys {
			if _, err := c.do("UNLINK", fmt.Sprint(key)); err != nil {
				return err
			}
		}
		if cursor = fmt.Sprint(page[0]); cursor == "0" {
			return nil
		}
	}
}
