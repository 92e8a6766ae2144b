package table_test

import (
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/table"
)

// CL-09: a server that led once, and does not know that it does so no more, says that there is no such key.
func TestCL_09_AKeyStartsOneRunThoughAFormerLeaderDoesNotKnowIt(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	a, c := open(t, s, prefix, table.Options{})
	b, _ := open(t, s, prefix, table.Options{})
	ctx := t.Context()
	if _, ok, err := a.Claim(ctx, once.Claim{Key: "k", Run: "first"}); !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	whole := s.Divert("$JS.API.STREAM.MSG.GET."+c.Name("TABLE", "keys"), clustertest.NoMessage)
	if c, ok, err := b.Claim(ctx, once.Claim{Key: "k", Run: "second"}); ok || err != nil || c.Run != "first" {
		t.Errorf("claimed: %+v, %v, %v", c, ok, err)
	}
	if ok, err := b.Move(ctx, "", "k", "first", "third"); !ok || err != nil {
		t.Errorf("moved: %v, %v", ok, err)
	}
	whole()
	if c, ok, err := a.Find(ctx, "", "k"); !ok || err != nil || c.Run != "third" {
		t.Errorf("found %+v, %v, %v", c, ok, err)
	}
	s.Divert("$JS.API.STREAM.MSG.GET."+c.Name("TABLE", "keys"), clustertest.NoMessage)
	if err := b.Forget(ctx, "", "k", "third"); err != nil {
		t.Error(err)
	}
	if _, ok, err := b.Claim(ctx, once.Claim{Key: "k", Run: "fourth"}); !ok || err != nil {
		t.Errorf("claimed once it was forgotten: %v, %v", ok, err)
	}
}
