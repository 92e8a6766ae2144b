package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// shardOf is the installation that a session belongs to: the one whose hash together with the session's is the highest. Where there is one
// installation more, sessions move to that one alone.
func shardOf(session string, shards int) int {
	best, most := 0, uint64(0)
	key := hash(session)
	for i := range shards {
		if h := mix(key ^ mix(uint64(i)+1)); h >= most {
			best, most = i, h
		}
	}
	return best
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// mix is the end of splitmix64: each bit of what goes in changes half of those that come out.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// balance is how sessions, and what they do, lie on installations.
type balance struct {
	sessions, turns float64 // the fullest beside the mean
	moved, inPlace  float64 // shares: that move when there is one more, and of these, those that move to it
}

// balanceOf spreads sessions. Few of them do most: the turns of the n-th are as 1/n^0.8, in no order.
func balanceOf(sessions, shards int) balance {
	load, turns := make([]float64, shards), make([]float64, shards)
	var all float64
	moved, right := 0, 0
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range sessions {
		id := session(i)
		at := shardOf(id, shards)
		n := math.Pow(1+float64(draw.IntN(sessions)), -0.8)
		load[at]++
		turns[at] += n
		all += n
		if next := shardOf(id, shards+1); next != at {
			moved++
			if next == shards {
				right++
			}
		}
	}
	b := balance{moved: float64(moved) / float64(sessions), inPlace: float64(right) / float64(max(moved, 1))}
	for i := range shards {
		b.sessions = max(b.sessions, load[i]*float64(shards)/float64(sessions))
		b.turns = max(b.turns, turns[i]*float64(shards)/all)
	}
	return b
}

// spread prints how sessions lie on more and more installations, and then has a server for each of some and fills them.
func spread(ctx context.Context, out io.Writer, shards, sessions int) (err error) {
	fmt.Fprintf(out, "%d sessions on\n", sessions)
	for n := 2; n <= 256; n *= 2 {
		b := balanceOf(sessions, n)
		fmt.Fprintf(out, "  %3d installations: the fullest has %.3f times the mean of sessions and %.3f of turns; with one more %.2f %% move (1/%d is %.2f %%), %.0f %% of these to it\n",
			n, b.sessions, b.turns, 100*b.moved, n+1, 100/float64(n+1), 100*b.inPlace)
	}
	dir, err := os.MkdirTemp("", "scale")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var list []*measurement
	defer func() {
		for _, m := range list {
			if m.replica != nil {
				m.replica.leave()
			}
			for _, n := range m.servers {
				n.kill()
			}
		}
	}()
	for i := range shards {
		m := &measurement{dir: filepath.Join(dir, fmt.Sprint(i))}
		list = append(list, m)
		if m.servers, err = nodes(1, m.dir); err != nil {
			return err
		}
		if err := m.startAll(); err != nil {
			return err
		}
		if m.replica, err = join(ctx, m.servers); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := each(0, sessions, func(i int) error { return list[shardOf(session(i), shards)].replica.makeSession(ctx, i, 1) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d servers by themselves, filled with %.0f sessions a second in all\n", shards, float64(sessions)/time.Since(began).Seconds())
	var wg sync.WaitGroup
	lines, errs := make([]string, shards), make([]error, shards)
	for i, m := range list {
		wg.Go(func() { lines[i], errs[i] = m.line(ctx) })
	}
	wg.Wait()
	fmt.Fprintln(out, strings.Join(lines, "\n"))
	return errors.Join(errs...)
}

// line is what one of the installations has.
func (m *measurement) line(ctx context.Context) (string, error) {
	state, err := m.state(ctx, "TAPES")
	if err != nil {
		return "", err
	}
	disk, err := m.disk("TAPES")
	if err != nil {
		return "", err
	}
	rss, inUse, err := m.servers[0].memory()
	return fmt.Sprintf("  %7d sessions, %s on disk, %s of memory, %s of it in use", state.NumSubjects, bytes(disk), bytes(rss), bytes(inUse)), err
}
