package nats_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/owner/ownertest"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	before "github.com/lingserve/lingserve/internal/before/nats"
	storenats "github.com/lingserve/lingserve/store/nats"
)

// oldStreams writes the streams that the code of a commit has written. A message has the same sequence as there.
func oldStreams(t *testing.T, c *cluster.Cluster, version string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + version + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var streams map[string][]struct {
		Seq    uint64
		Token  string
		Header client.Header
		Data   []byte
	}
	if err := json.Unmarshal(text, &streams); err != nil || len(streams) != 2 {
		t.Fatal(len(streams), err)
	}
	until := regexp.MustCompile(`"until":\d+`) // events that were settled are known for a day
	for name, messages := range streams {
		space := strings.ToLower(name)
		s, err := c.Stream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{c.Subject(space, "*")}, AllowRollup: true, AllowMsgTTL: true})
		if err != nil {
			t.Fatal(err)
		}
		next := uint64(1)
		for _, m := range messages {
			if e := m.Header["Event"]; len(e) > 0 {
				e[0] = until.ReplaceAllString(e[0], fmt.Sprint(`"until":`, time.Now().Add(time.Hour).UnixNano()))
			}
			for ; next <= m.Seq; next++ {
				out := &client.Msg{Subject: c.Subject(space, m.Token), Header: m.Header, Data: m.Data}
				if next < m.Seq { // one that is gone
					out = &client.Msg{Subject: c.Subject(space, "gone")}
				}
				ack, err := c.JetStream().PublishMsg(t.Context(), out)
				if err != nil || ack.Sequence != next {
					t.Fatal(ack, err)
				}
			}
		}
		if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(c.Subject(space, "gone"))); err != nil {
			t.Fatal(err)
		}
	}
}

// Events and replies of an earlier version are copied with all that is known of them, and go on at the replica that takes them.
func TestEventsAndRepliesOfEarlierVersionsAreTakenIn(t *testing.T) {
	for _, version := range []string{"8a17c0c", "d85e0e7"} {
		t.Run(version, func(t *testing.T) {
			s := clustertest.One(t)
			c := s.Open(t)
			oldStreams(t, c, version)
			if err := before.Channels(t.Context(), c, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
				t.Fatal(err)
			}
			e, alive := storenats.Open(c, storenats.Options{}), new(ownertest.Alive)
			defer e.Close()
			j, err := inbox.Open(t.Context(), e, inbox.Options{Owners: alive})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			var waiting []string
			for e, err := range j.Pending(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				want := `{"raw":"` + e.Key.ID + `"}`
				if e.Key.ID == "large" { // it was compressed
					want = strings.Repeat("large ", 50_000)
				}
				seen, err := j.Seen(t.Context(), e.Key.String())
				if string(e.Raw) != want || err != nil || e.Key.Synthetic != (e.Key.ID == "made waits") || time.Since(e.At) > 10*365*24*time.Hour {
					t.Errorf("%+v has %.50q, %v", e.Key, e.Raw, err)
				}
				waiting = append(waiting, fmt.Sprint(e.Key.ID, " ", e.Attempt, " ", seen))
			}
			want := []string{
				"waits 0 not_sent", "runs 1 not_sent", "released 1 not_sent", "made waits 0 not_sent", "sending 1 unknown", "sent 1 sent", "é/x y 0 not_sent",
				"large 0 not_sent",
			}
			if !slices.Equal(waiting, want) {
				t.Errorf("%q wait, expected %q", waiting, want)
			}
			for id, want := range map[string]channel.ClaimState{
				"settled": channel.ClaimSettled, "made": channel.ClaimSettled, "erased": channel.ClaimNone, "never accepted": channel.ClaimNone,
			} {
				k := channel.EventKey{Channel: "telegram", Account: "work", Conversation: "-5", Thread: "7", ID: id}
				if state, err := j.Peek(t.Context(), k); state != want || err != nil {
					t.Errorf("%s is %q, %v, expected %q", id, state, err, want)
				}
			}
			o, err := outbox.Open(t.Context(), e, outbox.Options{Owners: alive})
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			var blocks []string
			var news []channel.BlockNews
			if err := o.Start(func(n channel.BlockNews) { news = append(news, n) }); err != nil {
				t.Fatal(err)
			}
			for _, n := range news {
				out, err := o.Load(t.Context(), n.ID)
				if err != nil || out == nil || n.Event != out.Event || !n.Left || n.Alive {
					t.Fatalf("%+v is %+v, %v", n, out, err)
				}
				blocks = append(blocks, fmt.Sprint(out.Block.Text, " ", n.Attempt, " ", n.Sending))
			}
			want = []string{"the answer prepared 0 false", "the answer sending 1 true", "the answer unsent 1 false", "the answer last 0 false"}
			if !slices.Equal(blocks, want) {
				t.Errorf("%q are to be sent, expected %q", blocks, want)
			}
			for name := range c.JetStream().StreamNames(t.Context()).Name() {
				if name == c.Name("INBOX") || name == c.Name("OUTBOX") {
					t.Errorf("the stream %s is there", name)
				}
			}
		})
	}
}
