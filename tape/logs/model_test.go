package logs_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// models has an engine for each folder of a test.
type models struct {
	mu  sync.Mutex
	all map[string]*storetest.Model
}

func (m *models) open(dir string) *storetest.Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]*storetest.Model{}
	}
	if m.all[dir] == nil {
		m.all[dir] = storetest.NewModel()
	}
	return m.all[dir].Again()
}

func TestModel(t *testing.T) {
	var m models
	tapetest.Run(t, tapetest.Factory{Open: func(dir string) (tape.Store, error) {
		return logs.Open(context.Background(), m.open(dir), logs.Options{Leases: new(leases)})
	}})
}
