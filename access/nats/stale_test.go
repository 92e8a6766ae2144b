package nats_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
)

// A server that led once, and does not know that it does so no more, says that there is no such ticket.
func TestATicketIsNotRefusedBecauseAFormerLeaderSaysSo(t *testing.T) {
	t.Parallel()
	s, prefix := clustertest.One(t), clustertest.Prefix()
	a := access.NewTickets(access.TicketsOptions{Store: open(t, s, prefix)})
	b := access.NewTickets(access.TicketsOptions{Store: open(t, s, prefix)})
	text, _, err := a.Issue(t.Context(), access.Principal{Name: "ann"}, http.MethodGet, "/v1/runs")
	if err != nil {
		t.Fatal(err)
	}
	c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
	s.Divert("$JS.API.STREAM.MSG.GET."+c.Name("TICKETS"), clustertest.NoMessage)
	request := httptest.NewRequest(http.MethodGet, "/v1/runs", nil)
	if p, err := b.Redeem(t.Context(), text, request); err != nil || p.Name != "ann" {
		t.Errorf("redeemed for %q, %v", p.Name, err)
	}
	if _, err := a.Redeem(t.Context(), text, request); err == nil {
		t.Error("redeemed twice")
	}
}
