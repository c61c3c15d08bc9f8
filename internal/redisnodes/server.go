package redisnodes

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Server is what a server says of itself.
type Server struct {
	// Name is "redis" or "valkey", Version its version.
	Name, Version string
	// Primary tells that it takes writes.
	Primary bool
	// Replicas is how many are connected. They get what was written a moment later: a failover can lose it.
	Replicas int
	// Eviction is the policy for a full memory, and MaxMemory what is full, in bytes; 0 is no bound.
	Eviction  string
	MaxMemory int64
	// AppendOnly tells that writes go to a file. Without, a restart forgets all, or what came since its last snapshot.
	AppendOnly bool
}

// oldest are the versions that have what scripts need.
var oldest = map[string]string{"redis": "6.2", "valkey": "7.2"}

// String names the server.
func (s Server) String() string { return s.Name + " " + s.Version }

// TooOld returns the oldest version that will do, if s is older.
func (s Server) TooOld() (need string, tooOld bool) {
	need, known := oldest[s.Name]
	return need, known && slices.Compare(numbers(s.Version), numbers(need)) < 0
}

// numbers are those of a version, which are compared as numbers.
func numbers(version string) (parts []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		parts = append(parts, n)
	}
	return parts
}

// Servers asks each primary of a cluster, or the server, what it is.
func Servers(ctx context.Context, client Client) (servers []Server, err error) {
	var mu sync.Mutex // nodes are asked at once
	err = OnEach(ctx, client, func(ctx context.Context, node Client) error {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, Read(text))
		return nil
	})
	return servers, err
}

// Read reads the reply to INFO.
func Read(text string) Server {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	server := Server{
		Name: "redis", Version: fields["redis_version"], Primary: fields["role"] == "master",
		Eviction: fields["maxmemory_policy"], AppendOnly: fields["aof_enabled"] == "1",
	}
	if version, ok := fields["valkey_version"]; ok {
		server.Name, server.Version = "valkey", version
	}
	server.Replicas, _ = strconv.Atoi(fields["connected_slaves"])
	server.MaxMemory, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	return server
}
