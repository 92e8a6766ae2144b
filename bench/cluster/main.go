// Command cluster says what it costs to keep runs and sessions on NATS JetStream beside keeping them nowhere, all in one run: how much
// later a token comes to its reader on the replica that runs it and on another one, the processor time of a token, and the memory
// of the list of sessions. It prints the table of bench/CLUSTER.md.
//
//	go run ./bench/cluster [-runs 1,40,400] [-pace 50] [-rounds 3] [-seconds 5] [-sessions 100000] [-into FILE]
//
// Two replicas are in this process, as far as they keep and follow runs: there is no HTTP. An embedded server is in it, too; others are
// processes of their own. Processor time is read from /proc: it runs on Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	runs := flag.String("runs", "1,40,400", "how many runs at the same time: latencies are said of each, processor time of the last")
	pace := flag.Int("pace", 50, "tokens a second of each")
	rounds := flag.Int("rounds", 3, "how often everything is looked at, in turns: latencies are of all, processor times the middle ones")
	seconds := flag.Int("seconds", 5, "how long to look, for each figure")
	sessions := flag.Int("sessions", 100_000, "sessions in the list; 0 leaves that out")
	into := flag.String("into", "", "`file` whose table is replaced by what comes out, too")
	server := flag.String("server", "", "be a server of this `configuration`, until the input ends")
	step := flag.Duration("clock", 0, "be a clock that ticks each `step`, until nobody hears it")
	flag.Parse()
	var err error
	switch {
	case *server != "":
		err = serve(*server)
	case *step > 0:
		err = clock(*step)
	default:
		var figures string
		if figures, err = measure(*runs, *pace, *rounds, time.Duration(*seconds)*time.Second, *sessions); err == nil {
			fmt.Print(figures)
			err = put(figures, *into)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// figures are those of a place.
type figures struct {
	place           string
	kept            bool     // somewhere, where others can follow
	alone, followed []result // of each number of runs
	heap            float64  // MiB
	sync            latency  // of the disk
}

// measure returns the table.
func measure(list string, pace, rounds int, took time.Duration, sessions int) (string, error) {
	var runs []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return "", fmt.Errorf("-runs %s: %q is no number of runs", list, text)
		}
		runs = append(runs, n)
	}
	if rounds < 1 {
		return "", fmt.Errorf("-rounds %d: at least one", rounds)
	}
	places := []func(context.Context) (*place, error){openLocal, openEmbedded, openThree, openPostgres}
	seen := make([][]figures, len(places))
	for round := range rounds {
		for i, open := range places {
			p, err := open(context.Background())
			if err != nil {
				return "", err
			}
			n := 0
			if round == 0 {
				n = sessions
			}
			f, err := p.figures(context.Background(), runs, pace, took, n)
			if err := errors.Join(err, p.close()); err != nil {
				return "", fmt.Errorf("%s: %w", p.name, err)
			}
			last := &f.alone[len(runs)-1]
			if f.kept {
				last.more = last.cpu - seen[0][round].alone[len(runs)-1].cpu
			}
			seen[i] = append(seen[i], f)
		}
	}
	all := make([]figures, len(places))
	for i, rounds := range seen {
		all[i] = rounds[0]
		all[i].sync = nil
		for _, f := range rounds {
			all[i].sync = append(all[i].sync, f.sync...)
		}
		slices.Sort(all[i].sync)
		for n := range runs {
			all[i].alone[n] = middle(rounds, func(f figures) result { return f.alone[n] })
			if all[i].kept {
				all[i].followed[n] = middle(rounds, func(f figures) result { return f.followed[n] })
			}
		}
	}
	return table(all, runs, pace, sessions), nil
}

// purged is how long processor time is looked at, at least: pages are removed each ten seconds, which is part of what they cost.
const purged = 10 * time.Second

func (p *place) figures(ctx context.Context, runs []int, pace int, took time.Duration, sessions int) (f figures, err error) {
	f.place, f.kept = p.name, p.here != nil
	for i, n := range runs {
		look := took
		if i == len(runs)-1 {
			look = max(took, purged)
		}
		r, err := p.quiet(ctx, n, pace, look, false)
		if err != nil {
			return f, err
		}
		f.alone = append(f.alone, r)
		if !f.kept {
			continue
		}
		if r, err = p.quiet(ctx, n, pace, took, true); err != nil {
			return f, err
		}
		f.followed = append(f.followed, r)
	}
	if f.sync, err = syncs(); err != nil {
		return f, err
	}
	if p.cluster != nil && sessions > 0 {
		f.heap, err = p.sessions(ctx, sessions)
	}
	return f, err
}

func table(all []figures, runs []int, pace, sessions int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s; %d tokens a second of each run.\n\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly), pace)
	b.WriteString("| | goal |")
	for _, f := range all {
		b.WriteString(" " + f.place + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(all)) + "\n")
	row := func(what, aim string, figure func(figures) string) {
		fmt.Fprintf(&b, "| %s | %s |", what, aim)
		for _, f := range all {
			b.WriteString(strings.TrimSuffix(" "+figure(f), " ") + " |")
		}
		b.WriteString("\n")
	}
	number := func(n float64, there bool) string {
		if !there {
			return ""
		}
		return fmt.Sprintf("%.1f", n)
	}
	for i, n := range runs {
		row(fmt.Sprintf("latency of a token, runs: %d, p50 / p99 ms", n), "p50: 1 more; three nodes: 3", func(f figures) string { return f.alone[i].here.String() })
		row("– to a reader at another replica", "", func(f figures) string {
			if !f.kept {
				return ""
			}
			return f.followed[i].there.String()
		})
	}
	last := len(runs) - 1
	load := fmt.Sprintf("CPU a token, µs, runs: %d", runs[last])
	row(load, "", func(f figures) string { return number(f.alone[last].cpu, true) })
	row("– more than local", "2", func(f figures) string { return number(f.alone[last].more, f.kept) })
	row("– of separate server processes", "", func(f figures) string { return number(f.alone[last].servers, f.alone[last].servers > 0) })
	row("– tokens in a message", "", func(f figures) string { return number(f.alone[last].tokens, f.kept) })
	row(load+", each with a reader at another replica: both replicas", "", func(f figures) string {
		if !f.kept {
			return ""
		}
		return number(f.followed[last].cpu, true)
	})
	row("– of separate server processes", "", func(f figures) string {
		if !f.kept {
			return ""
		}
		return number(f.followed[last].servers, f.followed[last].servers > 0)
	})
	row("the machine: a sync of 4 KiB, p50 / p99 ms", "", func(f figures) string { return f.sync.String() })
	row(fmt.Sprintf("– processor time lent to others, runs: %d, %%", runs[last]), "", func(f figures) string { return number(100*f.alone[last].taken, true) })
	if sessions > 0 {
		row(fmt.Sprintf("heap of the list of %d sessions, MiB", sessions), "20", func(f figures) string { return number(f.heap, f.heap > 0) })
	}
	return b.String()
}

// begin and end are the lines of a file between which the table stands.
const begin, end = "<!-- table -->\n", "<!-- end -->\n"

// put replaces the table of a file, where there is one.
func put(table, file string) error {
	if file == "" {
		return nil
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q, between which a table stands", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+table+end+after), 0o644)
}
