// Command scale says how far an installation of several replicas goes: it fills NATS servers with sessions, runs and keys by the code that
// replicas have for it, measures what they cost, and works out from that what more of them need.
//
//	go run ./bench/scale [-sessions 10000,100000] [-nodes 1|3] [-batches 2] [-turns 100] [-dir DIR]   measures, and works out
//	go run ./bench/scale -model [-active 0.1] [-turns-a-day 10] …                                      works out alone, from figures in costs.go
//	go run ./bench/scale -shards 8                                                                     spreads sessions over installations
//
// The servers are processes of their own, as package cluster starts them, each message of a session synced. It reads /proc, so memory is
// measured on Linux alone. A million sessions take 3 GB of disk and 2 GB of memory for each server; on two cores ten minutes with -dir in
// memory (/dev/shm), and an hour where a disk syncs each message.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
)

func main() {
	serveNode()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	m := measurement{out: os.Stdout}
	var sizes string
	flags.StringVar(&sizes, "sessions", "10000,100000", "how many `sessions` there are at each look, with commas between")
	flags.IntVar(&m.nodes, "nodes", 1, "NATS servers, 1 or 3")
	flags.IntVar(&m.batches, "batches", 2, "appends to each session")
	flags.IntVar(&m.turns, "turns", 100, "turns of the built-in agent, and runs at 50 tokens a second, whose messages are counted")
	flags.StringVar(&m.dir, "dir", "", "`folder` for the servers' data; a new one that is removed unless set")
	only := flags.Bool("model", false, "measure nothing")
	shards := flags.Int("shards", 0, "spread sessions over so many `installations`, one server each, and over one more")
	use := usual
	use.flags(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || len(m.sizes) > 0 && n <= m.sizes[len(m.sizes)-1] {
			return fmt.Errorf("-sessions %s: expected numbers that rise, as 10000,100000", sizes)
		}
		m.sizes = append(m.sizes, n)
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q is not expected", flags.Arg(0))
	case m.nodes != 1 && m.nodes != 3:
		return fmt.Errorf("-nodes %d: there are 1 or 3", m.nodes)
	case m.batches < 1 || m.turns < 1:
		return errors.New("-batches and -turns are at least 1")
	case *shards < 0 || *shards == 1:
		return fmt.Errorf("-shards %d: there are 2 at least", *shards)
	}
	if *shards > 0 {
		return spread(ctx, os.Stdout, *shards, m.sizes[len(m.sizes)-1])
	}
	if !*only {
		if err := m.run(ctx); err != nil {
			return err
		}
		fmt.Println()
	}
	use.print(os.Stdout, measured)
	return nil
}
