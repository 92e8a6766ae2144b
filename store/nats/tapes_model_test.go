package nats_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// strip is what a tape must be: a list.
type strip struct {
	entries []tape.Entry
	blobs   map[string][]byte
}

func (s *strip) last() int64 {
	if len(s.entries) == 0 {
		return 0
	}
	return s.entries[len(s.entries)-1].ID
}

func (s *strip) info(name string) tape.Info {
	i := tape.Info{Tape: name}
	for _, e := range s.entries {
		i.Add(e)
	}
	return i
}

// TestTwoReplicasAgainstAModel has two replicas do what they like to the same tapes, one call after the other: whatever the one did,
// the other sees at once.
func TestTwoReplicasAgainstAModel(t *testing.T) { // CL-02, CL-06
	t.Parallel()
	url := clustertest.One(t).URL()
	rapid.Check(t, func(r *rapid.T) {
		prefix := clustertest.Prefix()
		var replicas []*replica
		for range 2 {
			s, err := connectTapes(tapesAt{url, prefix})
			if err != nil {
				r.Fatal(err)
			}
			defer s.Close()
			replicas = append(replicas, s)
		}
		ctx := t.Context()
		model := map[string]*strip{"one": {}, "two": {}}
		leases := map[string]tape.Lease{}
		holder := map[string]int{}
		n := 0
		entry := func() tape.Entry {
			n++
			e := tape.NewMessage("user", fmt.Sprint("word ", n))
			if n%7 == 0 {
				e = tape.NewAnchor(fmt.Sprint("anchor ", n/7%5), n)
			}
			e.Date = time.Date(2026, 3, 1, 0, 0, n, 0, time.UTC)
			return e
		}
		draw := func(r *rapid.T) (string, *strip, *replica) {
			name := rapid.SampledFrom([]string{"one", "two"}).Draw(r, "tape")
			return name, model[name], replicas[rapid.IntRange(0, 1).Draw(r, "replica")]
		}
		write := func(name string, m *strip, s *replica, b tape.Batch) error {
			first, err := s.Append(ctx, name, b)
			if err != nil {
				return err
			}
			if first != m.last()+1 && !b.KeepIDs {
				r.Fatalf("the first id is %d, want %d", first, m.last()+1)
			}
			for _, e := range b.Entries {
				if !b.KeepIDs {
					e.ID = m.last() + 1
				}
				m.entries = append(m.entries, e)
			}
			return nil
		}
		r.Repeat(map[string]func(*rapid.T){
			"append": func(r *rapid.T) {
				name, m, s := draw(r)
				b := tape.Batch{}
				for range rapid.IntRange(1, 3).Draw(r, "entries") {
					b.Entries = append(b.Entries, entry())
				}
				b.IfLast = rapid.SampledFrom([]int64{0, m.last(), m.last() + 1}).Draw(r, "if last")
				err := write(name, m, s, b)
				switch {
				case len(m.entries) == 0:
					if !errors.Is(err, tape.ErrNotFound) {
						r.Fatalf("append to no tape: %v", err)
					}
				case b.IfLast > m.last():
					if !errors.Is(err, tape.ErrMoved) {
						r.Fatalf("append behind an id that is not there: %v", err)
					}
				case err != nil:
					r.Fatal(err)
				}
			},
			"burst": func(r *rapid.T) { // over the pages of a record
				name, m, s := draw(r)
				if len(m.entries) == 0 {
					r.Skip("no tape")
				}
				for range 40 {
					if err := write(name, m, s, tape.Batch{Entries: []tape.Entry{entry()}}); err != nil {
						r.Fatal(err)
					}
				}
			},
			"large": func(r *rapid.T) { // several messages
				name, m, s := draw(r)
				if len(m.entries) == 0 || rapid.IntRange(0, 2).Draw(r, "really") > 0 {
					r.Skip("no tape, or not now")
				}
				long := entry()
				long.Payload = tape.NewMessage("user", strings.Repeat("long ", 60_000)).Payload
				if err := write(name, m, s, tape.Batch{Entries: []tape.Entry{entry(), long, entry()}}); err != nil {
					r.Fatal(err)
				}
			},
			"create": func(r *rapid.T) {
				name, m, s := draw(r)
				there := len(m.entries) > 0
				err := write(name, m, s, tape.Batch{Create: true, Entries: []tape.Entry{entry()}})
				if there && !errors.Is(err, tape.ErrNotEmpty) || !there && err != nil {
					r.Fatalf("create: %v", err)
				}
			},
			"import": func(r *rapid.T) {
				name, m, s := draw(r)
				broken := rapid.Bool().Draw(r, "broken")
				bang := errors.New("bang")
				var entries []tape.Entry
				for i := range 150 {
					e := entry()
					e.ID = int64(1 + 2*i)
					if i%10 == 0 {
						e.Payload = tape.NewMessage("user", strings.Repeat("x", 20_000)).Payload
					}
					entries = append(entries, e)
				}
				err := s.Import(ctx, name, "", "", func(yield func(tape.Entry, error) bool) {
					for _, e := range entries {
						if !yield(e, nil) {
							return
						}
					}
					if broken {
						yield(tape.Entry{}, bang)
					}
				})
				switch {
				case len(m.entries) > 0:
					if !errors.Is(err, tape.ErrNotEmpty) {
						r.Fatalf("import into a tape: %v", err)
					}
				case broken:
					if !errors.Is(err, bang) {
						r.Fatalf("an import that breaks off: %v", err)
					}
				case err != nil:
					r.Fatal(err)
				default:
					m.entries = entries
				}
			},
			"delete": func(r *rapid.T) {
				name, m, s := draw(r)
				if err := s.Delete(ctx, name); err != nil {
					r.Fatal(err)
				}
				*m = strip{}
			},
			"put a blob": func(r *rapid.T) {
				name, m, s := draw(r)
				data := bytes.Repeat([]byte{byte(n)}, rapid.SampledFrom([]int{0, 10, 3 << 20}).Draw(r, "size"))
				handle, err := s.PutBlob(ctx, name, data)
				if len(m.entries) == 0 {
					if !errors.Is(err, tape.ErrNotFound) {
						r.Fatalf("a blob of no tape: %v", err)
					}
					return
				}
				if err != nil {
					r.Fatal(err)
				}
				if m.blobs == nil {
					m.blobs = map[string][]byte{}
				}
				m.blobs[handle] = data
			},
			"read blobs": func(r *rapid.T) {
				_, _, s := draw(r)
				for name, m := range model {
					for handle := range model["one"].blobs {
						want, there := m.blobs[handle]
						offset := rapid.Int64Range(0, 3<<20).Draw(r, "offset")
						got, size, err := s.ReadBlob(ctx, name, handle, offset, 1<<20)
						if !there {
							if !errors.Is(err, tape.ErrNotFound) {
								r.Fatalf("a blob of another tape: %v", err)
							}
							continue
						}
						part := want[min(offset, int64(len(want))):min(offset+1<<20, int64(len(want)))]
						if err != nil || size != int64(len(want)) || !bytes.Equal(got, part) {
							r.Fatalf("%d of %d bytes from %d, %v, want %d of %d", len(got), size, offset, err, len(part), len(want))
						}
					}
				}
			},
			"lease": func(r *rapid.T) {
				name, _, _ := draw(r)
				if l := leases[name]; l != nil {
					l.Release()
					delete(leases, name)
					return
				}
				which := rapid.IntRange(0, 1).Draw(r, "replica")
				l, err := leased(ctx, replicas[which], name)
				if err != nil {
					r.Fatal(err)
				}
				if _, err := leased(ctx, replicas[1-which], name); !errors.Is(err, tape.ErrLeased) {
					r.Fatalf("a second lease: %v", err)
				}
				leases[name], holder[name] = l, which
			},
			"read": func(r *rapid.T) {
				name, m, s := draw(r)
				q := tape.Query{After: rapid.Int64Range(0, m.last()+1).Draw(r, "after"), Newest: rapid.Bool().Draw(r, "newest"), FromLast: rapid.Bool().Draw(r, "from last")}
				if rapid.Bool().Draw(r, "all") {
					q.After = 0
				}
				q.Before = rapid.SampledFrom([]int64{0, m.last(), (q.After + m.last()) / 2, q.After + 2}).Draw(r, "before")
				q.Limit = rapid.SampledFrom([]int{0, 1, 5}).Draw(r, "limit")
				got, err := collect(s.Read(ctx, name, q))
				if len(m.entries) == 0 {
					if !errors.Is(err, tape.ErrNotFound) {
						r.Fatalf("read no tape: %v", err)
					}
					return
				}
				from := q.After + 1
				if info := m.info(name); q.FromLast && info.Anchors > 0 {
					from = max(from, info.LastAnchor.ID)
				}
				var want []tape.Entry
				for _, e := range m.entries {
					if e.ID >= from && (q.Before == 0 || e.ID < q.Before) {
						want = append(want, e)
					}
				}
				if q.Newest {
					slices.Reverse(want)
				}
				if q.Limit > 0 {
					want = want[:min(len(want), q.Limit)]
				}
				if diff := cmp.Diff(linesOf(want), linesOf(got)); err != nil || diff != "" {
					r.Fatalf("%+v: %v (-want +got):\n%.2000s", q, err, diff)
				}
			},
			"anchors": func(r *rapid.T) {
				name, m, s := draw(r)
				if len(m.entries) == 0 {
					r.Skip("no tape")
				}
				anchor := fmt.Sprint("anchor ", rapid.IntRange(0, 4).Draw(r, "anchor"))
				var want []tape.Entry
				found := false
				for _, e := range m.entries {
					if e.Kind == tape.KindAnchor && tape.AnchorOf(e).Name == anchor {
						want, found = nil, true
					}
					if found {
						want = append(want, e)
					}
				}
				got, err := collect(s.Read(ctx, name, tape.Query{FromAnchor: anchor}))
				if !found {
					if !errors.Is(err, tape.ErrAnchorNotFound) {
						r.Fatalf("from an anchor that is not there: %v", err)
					}
					return
				}
				if diff := cmp.Diff(linesOf(want), linesOf(got)); err != nil || diff != "" {
					r.Fatalf("from %s: %v (-want +got):\n%.2000s", anchor, err, diff)
				}
			},
			"": func(r *rapid.T) {
				for i, s := range replicas {
					var want []tape.Info
					for name, m := range model {
						got, err := s.Info(ctx, name)
						if len(m.entries) == 0 {
							if !errors.Is(err, tape.ErrNotFound) {
								r.Fatalf("replica %d: info of no tape: %v", i, err)
							}
							continue
						}
						info := m.info(name)
						info.Bytes = got.Bytes
						want = append(want, info)
						if diff := cmp.Diff(info, got); err != nil || diff != "" {
							r.Fatalf("replica %d: info of %s: %v (-want +got):\n%s", i, name, err, diff)
						}
					}
					listed, err := collect(s.Sessions(ctx, tape.SessionQuery{}))
					for i := range listed {
						if j := slices.IndexFunc(want, func(w tape.Info) bool { return w.Tape == listed[i].Tape }); j >= 0 {
							want[j].Bytes = listed[i].Bytes
						}
					}
					page, _ := collect(tapetest.Page(want, tape.SessionQuery{}))
					if diff := cmp.Diff(page, listed); err != nil || diff != "" {
						r.Fatalf("replica %d: the list: %v (-want +got):\n%s", i, err, diff)
					}
				}
			},
		})
		for _, l := range leases {
			l.Release()
		}
	})
}

func linesOf(entries []tape.Entry) []string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = string(e.AppendJSON(nil))
	}
	return all
}
