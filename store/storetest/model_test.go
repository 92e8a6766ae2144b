package storetest_test

import (
	"testing"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

// modelPlace has engines without tables.
type modelPlace struct{ *storetest.Model }

type modelEngine struct {
	store.Engine
	model *storetest.Model
}

func (e modelEngine) Close() error { return e.model.Close() }

func (p modelPlace) Open(t testing.TB) store.Engine {
	t.Helper()
	e := modelEngine{model: p.Again()}
	t.Cleanup(func() { _ = e.Close() })
	return struct {
		modelEngine
		store.LogEngine
	}{e, e.model}
}

func TestModel(t *testing.T) {
	storetest.Logs(t, storetest.Setup{New: func(testing.TB) storetest.Place { return modelPlace{storetest.NewModel()} }, Bubble: true})
}

// memoryPlace has the tables of one test.
type memoryPlace struct{ *storetest.MemoryTables }

func (p memoryPlace) Open(t testing.TB) store.Engine {
	e := p.Again()
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestTablesInMemoryAreTablesLikeOthers(t *testing.T) {
	storetest.Tables(t, storetest.Setup{Bubble: true, New: func(testing.TB) storetest.Place { return memoryPlace{storetest.NewTables()} }})
}
