//go:build unix

package postgrestest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A server that is killed while clients come leaves no process, so it starts again at once.
func TestKillLeavesNoProcess(t *testing.T) {
	s := StartFor(t)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if c, err := pgx.Connect(ctx, s.URL()); err == nil {
					_, _ = c.Exec(ctx, "create temporary table t (n int)")
					_ = c.Close(ctx)
				}
			}
		})
	}
	for range 5 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if left := s.processes(); len(left) > 0 {
			t.Errorf("processes %v work in the server's folder still", left)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}
