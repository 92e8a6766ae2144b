package main

import (
	"fmt"
	"strings"
	"time"
)

// turn is what one contender did in one round.
type turn struct {
	report
	cpu    time.Duration // a token
	tokens int           // a second
	memory int           // bytes a stream
}

// turn starts a contender, lets it do the load and looks at it meanwhile.
func (b *bench) turn(name, kind string, l load) (turn, error) {
	var t turn
	p, err := b.contender(name)
	if err != nil {
		return t, err
	}
	defer p.stop()
	warm := load{streams: min(l.streams, 10), tokens: min(l.tokens, 100)}
	w, err := b.client(kind, p, "load", warm)
	if err != nil {
		return t, err
	}
	_, err = w.ask()
	w.stop()
	if err != nil {
		return t, err
	}
	c, err := b.client(kind, p, "load", l)
	if err != nil {
		return t, err
	}
	defer c.stop()
	time.Sleep(200 * time.Millisecond)
	idle, err := p.rss()
	if err != nil {
		return t, err
	}
	before, err := p.cpu()
	if err != nil {
		return t, err
	}
	if err := c.tell(); err != nil {
		return t, err
	}
	// All streams are open after a second, the last tokens come at the end.
	var samples []int
	if l.pace > 0 {
		time.Sleep(l.duration() / 2)
		for end := time.Now().Add(l.duration() * 3 / 10); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			rss, err := p.rss()
			if err != nil {
				return t, err
			}
			samples = append(samples, rss)
		}
	}
	if t.report, err = c.report(); err != nil {
		return t, err
	}
	after, err := p.cpu()
	if err != nil {
		return t, err
	}
	total := l.streams * l.tokens
	t.cpu = (after - before) / time.Duration(total)
	t.tokens = int(float64(total) / t.Seconds)
	t.memory = (median(samples) - idle) / l.streams
	return t, nil
}

// turns lets contenders take turns. Kinds are how they are spoken to.
func (b *bench) turns(rounds int, l load, names ...string) (map[string][]turn, error) {
	all := map[string][]turn{}
	for range rounds {
		for _, name := range names {
			t, err := b.turn(name, kindOf(name), l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = append(all[name], t)
		}
	}
	return all, nil
}

func kindOf(name string) string {
	if _, ok := kinds[name]; ok {
		return name
	}
	return "ling"
}

func of[T int | time.Duration](turns []turn, figure func(turn) T) T {
	var v []T
	for _, t := range turns {
		v = append(v, figure(t))
	}
	return median(v)
}

func us(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Microsecond)) }
func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
func kb(n int) string           { return fmt.Sprintf("%.1f", float64(n)/1024) }
func mb(n int) string           { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

func (b *bench) measureFast(rounds int) error {
	l := b.fast
	l.pace = tokenByToken
	return b.measureSpeed(rounds, l)
}

func (b *bench) measurePieces(rounds int) error {
	l := b.fast
	l.pace = inPieces
	return b.measureSpeed(rounds, l)
}

func (b *bench) measureSpeed(rounds int, l load) error {
	names := []string{"proxy", "lingserve"}
	all, err := b.turns(rounds, l, names...)
	if err != nil {
		return err
	}
	fmt.Printf("## %s\n\n", l)
	fmt.Println("| relay | 1000 tokens/s | of ReverseProxy's | CPU µs a token |")
	fmt.Println("|---|---|---|---|")
	base := of(all["proxy"], func(t turn) int { return t.tokens })
	for _, name := range names {
		n := of(all[name], func(t turn) int { return t.tokens })
		fmt.Printf("| %s | %d | %.2f | %s |\n", name, n/1000, float64(n)/float64(base), us(of(all[name], func(t turn) time.Duration { return t.cpu })))
	}
	fmt.Println()
	return nil
}

func (b *bench) measurePaced(rounds int) error {
	names := []string{"proxy", "lingserve"}
	all, err := b.turns(rounds, b.paced, names...)
	if err != nil {
		return err
	}
	fmt.Printf("## %s\n\n", b.paced)
	fmt.Println("| relay | CPU µs a token | of ReverseProxy's | latency p50 ms | p99 ms | KB a stream | of ReverseProxy's |")
	fmt.Println("|---|---|---|---|---|---|---|")
	cpu := func(t turn) time.Duration { return t.cpu }
	memory := func(t turn) int { return t.memory }
	for _, name := range names {
		fmt.Printf("| %s | %s | %.2f | %s | %s | %s | %.2f |\n", name,
			us(of(all[name], cpu)), float64(of(all[name], cpu))/float64(of(all["proxy"], cpu)),
			ms(of(all[name], func(t turn) time.Duration { return t.P50 })), ms(of(all[name], func(t turn) time.Duration { return t.P99 })),
			kb(of(all[name], memory)), float64(of(all[name], memory))/float64(of(all["proxy"], memory)))
	}
	fmt.Println()
	return nil
}

func (b *bench) measureSecond(rounds int) error {
	var figures []int
	l := load{streams: 300, tokens: 60, pace: 1} // so slow that what the streams themselves take does not blur it
	for range rounds {
		err := func() error {
			p, err := b.contender("lingserve")
			if err != nil {
				return err
			}
			defer p.stop()
			c, err := b.client("lingserve", p, "second", l)
			if err != nil {
				return err
			}
			defer c.stop()
			var rss [2]int
			for i := range rss {
				if _, err := c.ask(); err != nil {
					return err
				}
				time.Sleep(3 * time.Second)
				if rss[i], err = p.rss(); err != nil {
					return err
				}
			}
			figures = append(figures, (rss[1]-rss[0])/l.streams)
			return nil
		}()
		if err != nil {
			return err
		}
	}
	fmt.Printf("## A second reader on each of %d running streams\n\nKB a reader, its connection included: **%s** (turns: %s)\n\n", l.streams, kb(median(figures)), list(figures, kb))
	return nil
}

func (b *bench) measureEnd(rounds int) error {
	l := load{streams: 50, tokens: 100, pace: 50}
	names := []string{"proxy", "lingserve"}
	all, err := b.turns(rounds, l, names...)
	if err != nil {
		return err
	}
	fmt.Printf("## From the model's last byte to the end of the stream (%d streams at %d tokens/s)\n\n| relay | p50 ms | p99 ms |\n|---|---|---|\n", l.streams, l.pace)
	for _, name := range names {
		fmt.Printf("| %s | %s | %s |\n", name, ms(of(all[name], func(t turn) time.Duration { return t.End50 })), ms(of(all[name], func(t turn) time.Duration { return t.End99 })))
	}
	fmt.Println()
	return nil
}

func (b *bench) measureResume(rounds int) error {
	fmt.Println("## Resuming behind the 1000th event: request to first event\n\n| run | p50 ms | p99 ms |\n|---|---|---|")
	for _, m := range []struct {
		name string
		pace int
	}{{"ended", 0}, {"running", 400}} {
		p, err := b.contender("lingserve")
		if err != nil {
			return err
		}
		c, err := b.client("lingserve", p, "resume", load{streams: 100 * rounds, pace: m.pace})
		if err != nil {
			p.stop()
			return err
		}
		r, err := c.ask()
		c.stop()
		p.stop()
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %s | %s |\n", m.name, ms(r.First50), ms(r.First99))
	}
	fmt.Println()
	return nil
}

func (b *bench) measureStart(rounds int) error {
	var took []time.Duration
	var memory []int
	for range 3 * rounds {
		p, d, err := b.serve()
		if err != nil {
			return err
		}
		rss, err := p.rss()
		p.stop()
		if err != nil {
			return err
		}
		took, memory = append(took, d), append(memory, rss)
	}
	fmt.Printf("## Start\n\n`serve` to ready: **%s ms**; memory then: **%s MB**\n\n", ms(median(took)), mb(median(memory)))
	return nil
}

func (b *bench) measureMany(int) error {
	p, err := b.contender("lingserve")
	if err != nil {
		return err
	}
	defer p.stop()
	// Idle is a server that has had work: the pages of its program are in memory, its pools are filled.
	w, err := b.client("lingserve", p, "many", load{streams: 100})
	if err != nil {
		return err
	}
	_, err = w.ask()
	w.stop()
	if err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	idle, err := p.rss()
	if err != nil {
		return err
	}
	c, err := b.client("lingserve", p, "many", load{streams: b.many})
	if err != nil {
		return err
	}
	r, err := c.ask()
	c.stop()
	if err != nil {
		return err
	}
	ended := time.Now()
	peak, err := p.rss()
	if err != nil {
		return err
	}
	fmt.Printf("## After %d runs\n\n%.1f s for all, 50 at a time. Memory when idle after the first 100: %s MB; after the last run: %s MB; later:\n\n", b.many, r.Seconds, mb(idle), mb(peak))
	fmt.Println("| s | MB | of idle |\n|---|---|---|")
	for _, s := range []time.Duration{5, 15, 30, 45, 60} {
		time.Sleep(time.Until(ended.Add(s * time.Second)))
		rss, err := p.rss()
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %s | %.2f |\n", s, mb(rss), float64(rss)/float64(idle))
	}
	fmt.Println()
	return nil
}

func list(v []int, show func(int) string) string {
	var s strings.Builder
	for i, n := range v {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(show(n))
	}
	return s.String()
}
