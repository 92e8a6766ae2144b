// Command relay measures what it costs to put this server between a model and a client, beside net/http/httputil's
// ReverseProxy, which passes the bytes on as they are:
//
//	go run ./bench/relay
//
// The model, the relay and the clients are processes of their own (this program starts itself again for the parts), so that
// the processor time and the memory of the relay alone are read from the system. Contenders take turns in every round, so
// that a machine that gets slower or faster does so for all; medians are compared. The report is Markdown.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/relay: ")
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2:]); err != nil {
				log.Fatalf("%s: %v", os.Args[1], err)
			}
			return
		}
	}
	var b bench
	rounds := flag.Int("rounds", 3, "turns of each contender")
	only := flag.String("only", "fast,pieces,paced,second,end,resume,start,many,relays,peer", "what to measure, with commas between")
	flag.StringVar(&b.server.Given, "lingserve", "", "the server's binary; default: built from ./cmd/server")
	flag.StringVar(&b.peer, "peer", "bench/relay/peer", "folder of the Node peer, with node_modules; empty to leave it out")
	flag.IntVar(&b.fast.streams, "fast.streams", 100, "streams that go as fast as the model")
	flag.IntVar(&b.fast.tokens, "fast.tokens", 20_000, "tokens of each of them")
	flag.IntVar(&b.paced.streams, "paced.streams", 400, "streams that go at a pace")
	flag.IntVar(&b.paced.tokens, "paced.tokens", 500, "tokens of each of them")
	flag.IntVar(&b.paced.pace, "paced.pace", 50, "tokens a second of each of them")
	flag.IntVar(&b.many, "many", 10_000, "runs after which memory is looked at")
	flag.Parse()
	if err := b.run(*rounds, strings.Split(*only, ",")); err != nil {
		log.Fatal(err)
	}
}

// parts are what this program does when it starts itself again.
var parts = map[string]func(args []string) error{
	"part:model":    modelPart,
	"part:proxy":    proxyPart,
	"part:byhand":   byHandPart,
	"part:client":   clientPart,
	"part:profiled": profiledPart,
}

// load is how many streams of how many tokens there are, and at what pace: tokens a second, or one of the paces that are none.
type load struct{ streams, tokens, pace int }

func (l load) String() string {
	switch l.pace {
	case inPieces:
		return fmt.Sprintf("%d streams of %d tokens, as fast as the model can, 8 KiB at a time", l.streams, l.tokens)
	case tokenByToken:
		return fmt.Sprintf("%d streams of %d tokens, as fast as the model can, each written by itself", l.streams, l.tokens)
	}
	return fmt.Sprintf("%d streams of %d tokens, %d a second each", l.streams, l.tokens, l.pace)
}

// duration is how long a paced load takes.
func (l load) duration() time.Duration {
	return time.Duration(l.tokens) * time.Second / time.Duration(max(l.pace, 1))
}

type bench struct {
	server      program.Binary
	peer        string
	dir         string // for what the server keeps
	fast, paced load
	many        int
	model       *process
}

func (b *bench) run(rounds int, only []string) error {
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	defer b.server.Close()
	if err := b.prepare(); err != nil {
		return err
	}
	if b.model, err = startPart("part:model"); err != nil {
		return err
	}
	defer b.model.stop()

	fmt.Println(machine())
	for _, m := range []struct {
		name    string
		measure func(rounds int) error
	}{
		{"fast", b.measureFast},
		{"pieces", b.measurePieces},
		{"paced", b.measurePaced},
		{"second", b.measureSecond},
		{"end", b.measureEnd},
		{"resume", b.measureResume},
		{"start", b.measureStart},
		{"many", b.measureMany},
		{"relays", b.measureRelays},
		{"peer", b.measurePeer},
	} {
		if !slices.Contains(only, m.name) {
			continue
		}
		if err := m.measure(rounds); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// median of figures, each of which is one turn's.
func median[T int | int64 | float64 | time.Duration](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
