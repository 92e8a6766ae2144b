package nats_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	before "github.com/lingserve/lingserve/internal/before/nats"
	storenats "github.com/lingserve/lingserve/store/nats"
)

func TestMain(m *testing.M) { clustertest.Main(m, nil) }

// oldTexts writes texts as earlier versions did: a message for each, whose subject is below the stream's name in lower case.
func oldTexts(t *testing.T, c *cluster.Cluster, stream, space string, texts map[string]string) {
	t.Helper()
	_, err := c.Stream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{c.Subject(space, "*")}, MaxMsgsPerSubject: 1, AllowMsgTTL: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		m := &client.Msg{Subject: c.Subject(space, cluster.Token(name)), Header: client.Header{"Text-Name": {name}}, Data: []byte(text)}
		if text == "" {
			m.Header.Set("Text-Gone", "1")
		}
		if _, err := c.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// Pairs and the other texts of an earlier version are copied once, whichever of the replicas comes first, and the streams are deleted.
func TestStreamsOfEarlierVersionsAreTakenIn(t *testing.T) {
	s := clustertest.One(t)
	c := s.Open(t)
	want := map[string]string{}
	for i := range 20 {
		want[fmt.Sprint("pair-", i)] = fmt.Sprintf(`{"channel":"x","sender":"%d"}`, i)
	}
	old := map[string]string{"pair-gone": ""}
	for name, text := range want {
		old[name] = text
	}
	oldTexts(t, c, "PAIRS", "pairs", old)
	oldTexts(t, c, "LEARNED", "learned", map[string]string{"hook@a/b": "what was learned"})
	oldTexts(t, c, "SESSIONS", "sessions", nil)
	oldTexts(t, c, "RESULTS", "results", nil)
	texts := func(e *storenats.Engine, o channel.TextTable) channel.Texts {
		t.Helper()
		texts, err := channel.OpenTexts(t.Context(), e, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	var wg sync.WaitGroup
	for range 2 {
		replica := s.Open(t)
		wg.Go(func() {
			if err := before.Channels(t.Context(), replica, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	e := storenats.Open(c, storenats.Options{})
	defer e.Close()
	got, err := texts(e, channel.PairTable).All(t.Context(), "pair-")
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d pairs, %v, expected %d", len(got), err, len(want))
	}
	for name, text := range want {
		if string(got[name]) != text {
			t.Errorf("%s is %q, expected %q", name, got[name], text)
		}
	}
	if text, err := texts(e, channel.LearnedTable).Load(t.Context(), "hook@a/b"); string(text) != "what was learned" || err != nil {
		t.Errorf("learned is %q, %v", text, err)
	}
	for name := range c.JetStream().StreamNames(t.Context()).Name() {
		for _, old := range []string{"PAIRS", "LEARNED", "SESSIONS", "RESULTS"} {
			if name == c.Name(old) {
				t.Errorf("the stream %s is there", name)
			}
		}
	}
	if err := before.Channels(t.Context(), c, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("once more: %v", err)
	}
}
