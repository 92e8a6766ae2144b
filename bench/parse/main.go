// Command parse measures the parser beside others on the same document, in turns in one run, and prints tables in Markdown.
//
//	npm install --prefix bench/parse/peers
//	go run ./bench/parse
//
// Each parser reads the same article in pieces of the same number of characters, through its own incremental API. Every
// round has a turn for each, so that a machine that gets slower or faster does so for all of them; medians are compared.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/bench/internal/article"
	"github.com/lingserve/lingserve/jsonuri"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/parse: ")
	rounds := flag.Int("rounds", 5, "turns of each parser")
	size := flag.Int("size", 1<<20, "bytes of the article")
	chars := flag.Int("chars", 4, "characters of a token")
	peers := flag.String("peers", "bench/parse/peers", "folder of the peers, with node_modules; empty to leave them out")
	grow := flag.Bool("growth", true, "also measure how time grows with the size of each shape")
	damage := flag.Int("damage", 0, "instead, how many documents to damage in each way, to see how often they come back")
	seed := flag.Uint64("seed", 1, "what the damaged documents follow from")
	show := flag.Int("show", 0, "texts of each way to show that do not come back")
	flag.Parse()
	if *damage > 0 {
		if err := damageTable(*damage, *seed, *peers, *show); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(*rounds, *size, *chars, *peers); err != nil {
		log.Fatal(err)
	}
	if !*grow {
		return
	}
	if err := growth(min(*rounds, 3)); err != nil { // long turns, which disturbances even out
		log.Fatal(err)
	}
}

func run(rounds, size, chars int, peers string) error {
	text := article.JSON(size)
	tokens := article.Tokens(text, chars)
	fmt.Printf("%s; %d cores; %s; Node %s\n\n", processor(), runtime.NumCPU(), runtime.Version(), nodeVersion())

	contenders := []*contender{ours("lingserve, strict", false, tokens), ours("lingserve, repair", true, tokens)}
	if peers != "" {
		if _, err := os.Stat(filepath.Join(peers, "node_modules")); err != nil {
			return fmt.Errorf("the peers are not installed: run npm install --prefix %s, or give -peers=", peers)
		}
		dir, err := os.MkdirTemp("", "article")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "article.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		for _, name := range []string{"jsonriver", "ling"} {
			contenders = append(contenders, peer(peers, name, file, chars))
		}
	}
	if err := race(rounds, contenders); err != nil {
		return err
	}
	fmt.Printf("An article of %d bytes in %d tokens of %d characters, medians of %d rounds:\n\n", size, len(tokens), chars, rounds)
	table(contenders, size, len(tokens))

	contenders = []*contender{
		{name: "lingserve, strict", turn: repeat(whole(false, text))},
		{name: "lingserve, repair", turn: repeat(whole(true, text))},
		{name: "encoding/json.Valid", turn: repeat(func() error {
			if !json.Valid(text) {
				return fmt.Errorf("the article is not valid")
			}
			return nil
		})},
	}
	if err := race(rounds, contenders); err != nil {
		return err
	}
	fmt.Printf("\nThe same article in one piece:\n\n")
	table(contenders, size, 1)
	return nil
}

// A contender has one turn in each round, which returns the seconds that one pass over the article took.
type contender struct {
	name  string
	turn  func() (float64, error)
	times []float64
}

func race(rounds int, contenders []*contender) error {
	for range rounds {
		for _, c := range contenders {
			seconds, err := c.turn()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.times = append(c.times, seconds)
		}
	}
	return nil
}

func table(contenders []*contender, size, tokens int) {
	first := median(contenders[0].times)
	fmt.Println("| parser | MB/s | ns a token | the first is faster by |")
	fmt.Println("|---|---:|---:|---:|")
	for _, c := range contenders {
		t := median(c.times)
		each := "" // of one piece it says nothing
		if tokens > 1 {
			each = fmt.Sprintf("%.1f", t/float64(tokens)*1e9)
		}
		fmt.Printf("| %s | %.2f | %s | %.1f× |\n", c.name, float64(size)/t/1e6, each, t/first)
	}
}

func ours(name string, repair bool, tokens []string) *contender {
	p := parserFor(repair)
	return &contender{name: name, turn: repeat(func() error { return parseTokens(p, tokens) })}
}

func whole(repair bool, text []byte) func() error {
	p := parserFor(repair)
	return func() error { return parseBytes(p, text, len(text)) }
}

// repeat makes a turn of something fast: one pass to warm up, as the peers have it, and then many of which the mean counts.
func repeat(pass func() error) func() (float64, error) {
	return func() (float64, error) {
		if err := pass(); err != nil {
			return 0, err
		}
		const passes = 10
		start := time.Now()
		for range passes {
			if err := pass(); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / passes, nil
	}
}

// peer is another parser, in a process of its own in each turn. Starting and warming up are not counted.
func peer(dir, name, file string, chars int) *contender {
	return &contender{name: name, turn: func() (float64, error) {
		cmd := exec.Command("node", filepath.Join(dir, "peers.mjs"), name, file, strconv.Itoa(chars))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return 0, err
		}
		var result struct{ Seconds float64 }
		if err := json.Unmarshal(out, &result); err != nil {
			return 0, err
		}
		if result.Seconds <= 0 {
			return 0, fmt.Errorf("no time in %q", out)
		}
		return result.Seconds, nil
	}}
}

func growth(rounds int) error {
	sizes := []int{1 << 20, 4 << 20, 16 << 20}
	fmt.Printf("\nGrowth, in pieces of 4 bytes (16 times the text may take 17 times as long):\n\n")
	fmt.Println("| document | mode | 1 MiB, MB/s | 4 MiB | 16 MiB | time from 1 to 16 MiB |")
	fmt.Println("|---|---|---:|---:|---:|---:|")
	for _, s := range shapes {
		for _, mode := range []string{"strict", "repair"} {
			contenders := make([]*contender, len(sizes))
			for i, size := range sizes {
				text := s.make(size)
				p := parserFor(mode == "repair")
				contenders[i] = &contender{name: s.name, turn: func() (float64, error) {
					// As many bytes at each size, so that a turn is as long, and as likely to be disturbed, at each.
					passes := sizes[len(sizes)-1] / size
					start := time.Now()
					for range passes {
						if err := parseBytes(p, text, 4); err != nil {
							return 0, err
						}
					}
					return time.Since(start).Seconds() / float64(passes), nil
				}}
			}
			if err := race(rounds, contenders); err != nil {
				return err
			}
			fmt.Printf("| %s | %s |", s.name, mode)
			for i, c := range contenders {
				fmt.Printf(" %.0f |", float64(sizes[i])/median(c.times)/1e6)
			}
			fmt.Printf(" %.1f× |\n", median(contenders[2].times)/median(contenders[0].times))
		}
	}
	return nil
}

// newParser makes a parser for each document.
type newParser func() *jsonuri.Parser

// parserFor makes parsers that make every delta and do nothing with it.
func parserFor(repair bool) newParser {
	return func() *jsonuri.Parser {
		return jsonuri.NewParser(jsonuri.Handler{Delta: func(jsonuri.Delta) {}}, &jsonuri.Options{Repair: repair, MaxBytes: 64 << 20})
	}
}

func parseTokens(make newParser, tokens []string) error {
	p := make()
	for _, token := range tokens {
		if _, err := p.WriteString(token); err != nil {
			return err
		}
	}
	return p.Close()
}

func parseBytes(make newParser, text []byte, chunk int) error {
	p := make()
	for len(text) > 0 {
		n := min(chunk, len(text))
		if _, err := p.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return p.Close()
}

func median[T cmp.Ordered](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // elsewhere the architecture has to do
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func nodeVersion() string {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "not installed"
	}
	return strings.TrimSpace(string(out))
}
