package nats_test

import (
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/runlog/runlogtest"
)

func TestThreeNodes(t *testing.T) {
	longtest.Only(t, "what one server shows, on three")
	t.Parallel()
	s := clustertest.Three(t)
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicas(s, true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicas(s, false)) })
	t.Run("log with pages", func(t *testing.T) { runlogtest.Test(t, paged(replicas(s, true))) })
	t.Run("shared with pages", func(t *testing.T) { runlogtest.TestShared(t, paged(replicas(s, false))) })
}
