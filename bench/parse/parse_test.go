package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lingserve/lingserve/bench/internal/article"
	"github.com/lingserve/lingserve/jsonuri"
)

const mib = 1 << 20

var modes = []struct {
	name   string
	repair bool
}{{"strict", false}, {"repair", true}}

// The article in pieces of 4 characters, as a model's tokens come. What is allocated is the parser.
func BenchmarkArticleInTokens(b *testing.B) {
	tokens := article.Tokens(article.JSON(mib), 4)
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			p := parserFor(mode.repair)
			b.SetBytes(mib)
			b.ReportAllocs()
			for b.Loop() {
				if err := parseTokens(p, tokens); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tokens)), "ns/token")
		})
	}
}

// The article in one piece, beside the standard library, which only says whether it is valid.
func BenchmarkArticleAtOnce(b *testing.B) {
	text := article.JSON(mib)
	b.Run("encoding/json.Valid", func(b *testing.B) {
		b.SetBytes(mib)
		b.ReportAllocs()
		for b.Loop() {
			if !json.Valid(text) {
				b.Fatal("not valid")
			}
		}
	})
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			p := parserFor(mode.repair)
			b.SetBytes(mib)
			b.ReportAllocs()
			for b.Loop() {
				if err := parseBytes(p, text, len(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What listeners and a fold cost on top.
func BenchmarkArticleCollected(b *testing.B) {
	tokens := article.Tokens(article.JSON(mib), 4)
	var document jsonuri.Document
	apply := func(d jsonuri.Delta) {
		if err := document.Apply(d); err != nil {
			b.Error(err)
		}
	}
	for _, tt := range []struct {
		name    string
		handler jsonuri.Handler
	}{
		{"strings", jsonuri.Handler{Delta: func(jsonuri.Delta) {}, String: func([]byte, string) {}}},
		{"objects", jsonuri.Handler{Delta: func(jsonuri.Delta) {}, Object: func(_, _ []byte) {}}},
		{"fold", jsonuri.Handler{Delta: apply}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			p := func() *jsonuri.Parser { return jsonuri.NewParser(tt.handler, &jsonuri.Options{Repair: true}) }
			b.SetBytes(mib)
			b.ReportAllocs()
			for b.Loop() {
				document.Delete("")
				if err := parseTokens(p, tokens); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Each shape at 1, 4 and 16 MiB, in pieces of 4 bytes, and how time grows from the smallest to the largest: 16 is linear.
func BenchmarkShape(b *testing.B) {
	for _, mode := range modes {
		for _, s := range shapes {
			for _, size := range []int{1, 4, 16} {
				b.Run(fmt.Sprintf("%s/%s/%dMiB", mode.name, s.name, size), func(b *testing.B) {
					text := s.make(size * mib)
					p := parserFor(mode.repair)
					b.SetBytes(int64(len(text)))
					b.ReportAllocs()
					for b.Loop() {
						if err := parseBytes(p, text, 4); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			b.Run(fmt.Sprintf("%s/%s/growth", mode.name, s.name), func(b *testing.B) {
				small, large := s.make(mib), s.make(16*mib)
				p := parserFor(mode.repair)
				var onSmall, onLarge time.Duration
				for b.Loop() {
					onSmall += timed(b, p, small, 16) / 16
					onLarge += timed(b, p, large, 1)
				}
				b.ReportMetric(float64(onLarge)/float64(onSmall), "times/16MiB")
			})
		}
	}
}

func timed(b *testing.B, p newParser, text []byte, times int) time.Duration {
	start := time.Now()
	for range times {
		if err := parseBytes(p, text, 4); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// What is measured must be right: each shape, cut as in the benchmarks, folds to what the standard library reads.
func TestShapesAreReadRight(t *testing.T) {
	for _, mode := range modes {
		for _, s := range shapes {
			t.Run(mode.name+"/"+s.name, func(t *testing.T) {
				text := s.make(64 << 10)
				if len(text) < 62<<10 || len(text) > 65<<10 {
					t.Errorf("%d bytes", len(text))
				}
				var document jsonuri.Document
				apply := func(d jsonuri.Delta) {
					if err := document.Apply(d); err != nil {
						t.Error(err)
					}
				}
				p := func() *jsonuri.Parser {
					return jsonuri.NewParser(jsonuri.Handler{Delta: apply}, &jsonuri.Options{Repair: mode.repair})
				}
				for range 2 {
					document = jsonuri.Document{}
					if err := parseBytes(p, text, 4); err != nil {
						t.Fatal(err)
					}
					var got, want any
					if err := json.Unmarshal(document.AppendJSON(nil), &got); err != nil {
						t.Fatal(err)
					}
					if err := json.Unmarshal(text, &want); err != nil {
						t.Fatal(err)
					}
					if !same(got, want) {
						t.Error("the fold is another document")
					}
				}
			})
		}
	}
}

func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
