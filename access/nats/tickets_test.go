package nats_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/access/accesstest"
	"github.com/lingserve/lingserve/access/nats"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

func open(t testing.TB, s *clustertest.Servers, prefix string) *nats.Store {
	t.Helper()
	c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
	store, err := nats.Open(t.Context(), c, nats.Options{Most: accesstest.Most, All: accesstest.All})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func suite(t *testing.T, s *clustertest.Servers) {
	prefixes := map[*testing.T]string{}
	accesstest.Tickets(t, false, func(t *testing.T) access.TicketStore {
		if prefixes[t] == "" {
			prefixes[t] = clustertest.Prefix()
		}
		return open(t, s, prefixes[t])
	})
}

func TestMain(m *testing.M) {
	longtest.Parallel(3) // they wait for servers
	clustertest.Main(m, nil)
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	suite(t, clustertest.One(t))
}

func TestThreeNodes(t *testing.T) {
	longtest.Only(t, "what one node shows, on three")
	t.Parallel()
	suite(t, clustertest.Three(t))
}

// While the servers are away, who asks is told to come back.
func TestTheServersAreAway(t *testing.T) {
	t.Parallel()
	s, prefix := clustertest.One(t), clustertest.Prefix()
	tickets := access.NewTickets(access.TicketsOptions{Store: open(t, s, prefix)})
	issue := func() (string, error) {
		text, _, err := tickets.Issue(t.Context(), access.Principal{Name: "ann"}, http.MethodGet, "/v1/runs")
		return text, err
	}
	var texts []string
	for range 3 {
		text, err := issue()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	s.Kill(0)
	check := func(what string, err error) {
		t.Helper()
		if r, ok := errors.AsType[*access.Refusal](err); !ok || r.Status != http.StatusServiceUnavailable || r.Code != "overloaded" || r.RetryAfter == 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	request := httptest.NewRequest(http.MethodGet, "/v1/runs", nil)
	_, err := issue()
	check("issued", err)
	_, err = tickets.Redeem(t.Context(), texts[0], request)
	check("redeemed", err)
	s.Restart(0)
	for end := time.Now().Add(20 * time.Second); ; {
		p, err := tickets.Redeem(t.Context(), texts[0], request)
		if err == nil && p.Name == "ann" {
			return
		}
		if errors.Is(err, access.ErrTicket) && len(texts) > 1 { // it is used up: the servers, who have just begun, took too long to say so
			texts = texts[1:]
		}
		if time.Now().After(end) {
			t.Fatalf("when they are back: %v", err)
		}
	}
}
