package testdb

import (
	"fmt"
	"testing"
)

func TestKeysOfATestAreDeletedAfterIt(t *testing.T) {
	s := RedisServer(t)
	t.Setenv(RedisEnv, s.URL()+"/3") // as somebody else's server
	conn, err := dialRedis(t.Context(), s.URL()+"/3")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	const others = "somebody:else"
	if _, err := conn.do("SET", others, "1"); err != nil {
		t.Fatal(err)
	}
	t.Run("fills", func(t *testing.T) {
		_, prefix := Redis(t)
		for i := range 2500 {
			if _, err := conn.do("SET", fmt.Sprint(prefix, i), "value"); err != nil {
				t.Fatal(err)
			}
		}
	})
	left, err := conn.do("KEYS", "*")
	if keys, ok := left.([]any); err != nil || !ok || len(keys) != 1 || keys[0] != others {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRedisPasswordsAreUsed(t *testing.T) {
	s := RedisServer(t)
	conn, err := dialRedis(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	if _, err := conn.do("CONFIG", "SET", "requirepass", "secret"); err != nil {
		t.Fatal(err)
	}
	address := s.URL()[len("redis://"):]
	for user, want := range map[string]bool{"": false, ":secret@": true, "default:secret@": true, ":wrong@": false} {
		err := pingRedis(t.Context(), "redis://"+user+address, s.dir)
		if (err == nil) != want {
			t.Errorf("%q: %v", user, err)
		}
	}
	if err := pingRedis(t.Context(), "http://"+address, s.dir); err == nil {
		t.Error("a URL of another kind was taken")
	}
}

func TestKilledRedisKeepsWhatWasAnswered(t *testing.T) {
	t.Parallel()
	s := RedisServer(t)
	conn, err := dialRedis(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	const n = 100
	for i := range n {
		if _, err := conn.do("SET", fmt.Sprint("key", i), "value"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.do("PING"); err == nil {
		t.Fatal("the killed server answers")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := dialRedis(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if size, err := again.do("DBSIZE"); err != nil || size != fmt.Sprint(n) {
		t.Errorf("%v of %d keys are left, %v", size, n, err)
	}
}
