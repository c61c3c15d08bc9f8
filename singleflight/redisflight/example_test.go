package redisflight_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

type user struct{ Name string }

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	users := redisflight.New(client, func(_ context.Context, id string) (user, error) {
		return user{Name: "of the database, by " + id}, nil
	}, nil)
	ctx := context.Background()
	u, err := users.Get(ctx, "42")
	fmt.Println(u.Name, err)
	// After the commit that changed the user:
	if err := users.Invalidate(ctx, "42"); err != nil {
		fmt.Println("again, later:", err)
	}
}
