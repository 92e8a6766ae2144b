// Command cluster says what it costs to keep runs and sessions on NATS JetStream beside keeping them nowhere, all in one run: how much
// later a token comes to its reader on the replica that runs it and on another one, the processor time of a token, and the memory
// of the list of sessions. It prints the table of bench/CLUSTER.md.
//
//	go run ./bench/cluster [-runs 1,40,400] [-pace 50] [-seconds 5] [-sessions 100000]
//
// Two replicas are in this process, as far as they keep and follow runs: there is no HTTP. An embedded server is in it, too; others are
// processes of their own, whose processor time is read from /proc: it runs on Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	runs := flag.String("runs", "1,40,400", "how many runs at the same time: latencies are said of each, processor time of the last")
	pace := flag.Int("pace", 50, "tokens a second of each")
	seconds := flag.Int("seconds", 5, "how long to look, for each figure")
	sessions := flag.Int("sessions", 100_000, "sessions in the list; 0 leaves that out")
	server := flag.String("server", "", "be a server of this `configuration`, until the input ends")
	flag.Parse()
	var err error
	if *server != "" {
		err = serve(*server)
	} else {
		err = measure(*runs, *pace, time.Duration(*seconds)*time.Second, *sessions)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func measure(list string, pace int, took time.Duration, sessions int) (err error) {
	var runs []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-runs %s: %q is no number of runs", list, text)
		}
		runs = append(runs, n)
	}
	ctx := context.Background()
	var names []string
	table := map[string][]string{} // what there is of each place
	var order []string
	row := func(what, figure string) {
		if table[what] == nil {
			order = append(order, what)
		}
		for len(table[what]) < len(names)-1 {
			table[what] = append(table[what], "")
		}
		table[what] = append(table[what], figure)
	}
	var local float64
	for _, open := range []func(context.Context) (*place, error){openLocal, openEmbedded, openThree} {
		p, err := open(ctx)
		if err != nil {
			return err
		}
		names = append(names, p.name)
		err = func() error {
			for i, n := range runs {
				load := fmt.Sprintf("%d × %d a second", n, pace)
				alone, err := p.paced(ctx, n, pace, took, false)
				if err != nil {
					return err
				}
				row("latency here, "+load+", p50 / p99 ms", alone.here.String())
				if p.here != nil {
					followed, err := p.paced(ctx, n, pace, took, true)
					if err != nil {
						return err
					}
					row("there, "+load+", p50 / p99 ms", followed.there.String())
					if i == len(runs)-1 {
						row("CPU µs a token, "+load+", all followed there: both replicas", fmt.Sprintf("%.1f", followed.cpu))
						row("– the servers' processes", other(followed.servers))
					}
				}
				if i < len(runs)-1 {
					continue
				}
				if p.here == nil {
					local = alone.cpu
				}
				row("CPU µs a token, "+load, fmt.Sprintf("%.1f", alone.cpu))
				if p.here != nil {
					row("– more than local: the replica, and the server in it", fmt.Sprintf("%.1f", alone.cpu-local))
					row("– servers in processes of their own", other(alone.servers))
					row("– tokens a message", fmt.Sprintf("%.1f", alone.tokens))
				}
			}
			if sessions > 0 && p.other != nil {
				size, err := p.sessions(ctx, sessions)
				if err != nil {
					return err
				}
				row(fmt.Sprintf("heap of the list of %d sessions, MiB", sessions), fmt.Sprintf("%.1f", size))
			}
			return nil
		}()
		if err := errors.Join(err, p.close()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	fmt.Printf("%s, %d processors, %s.\n\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	fmt.Printf("| | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, what := range order {
		for len(table[what]) < len(names) {
			table[what] = append(table[what], "")
		}
		fmt.Printf("| %s | %s |\n", what, strings.Join(table[what], " | "))
	}
	return nil
}

// other is a figure of other processes, where there are any.
func other(cpu float64) string {
	if cpu == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", cpu)
}
