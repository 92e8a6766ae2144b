package main

import (
	"fmt"
	"time"
)

// The relays that people would write instead.
const (
	byHand    = "by hand in Go, go-openai"
	aiText    = "AI SDK 7, streamText to a UI stream"
	aiObject  = "AI SDK 7, streamObject"
	langChain = "LangChain.js"
)

// scripts are the relays on Node: the file and its first arguments.
var scripts = map[string][]string{
	aiText:    {"aisdk.mjs", "text"},
	aiObject:  {"aisdk.mjs", "object"},
	langChain: {"langchain.mjs"},
}

// measureRelays compares with the relays that people would write, on work that each of them can do: streams that come as fast as the model can,
// and streams at a pace that the slowest of them can keep.
func (b *bench) measureRelays(rounds int) error {
	names := []string{"lingserve", byHand, aiText, aiObject, langChain}
	if b.peer == "" {
		names = names[:2]
	} else if err := b.installed(); err != nil {
		return err
	}
	fast := load{streams: b.fast.streams, tokens: 1000, pace: tokenByToken}
	paced := load{streams: 50, tokens: 400, pace: b.paced.pace}
	all, err := b.turns(rounds, fast, names...)
	if err != nil {
		return err
	}
	at, err := b.turns(rounds, paced, names...)
	if err != nil {
		return err
	}
	fmt.Printf("## Beside the relays that people would write: %s; and %s\n\n", fast, paced)
	fmt.Println("| relay | 1000 tokens/s | of lingserve's | CPU µs a token | at a pace: CPU µs a token | of lingserve's | latency p50 / p99 ms | end p50 / p99 ms | KB a stream |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	tokens := func(t turn) int { return t.tokens }
	cpu := func(t turn) time.Duration { return t.cpu }
	for _, name := range names {
		duration := func(figure func(turn) time.Duration) string { return ms(of(at[name], figure)) }
		fmt.Printf("| %s | %.1f | %.2f | %s | %s | %.2f | %s / %s | %s / %s | %s |\n", name,
			float64(of(all[name], tokens))/1000, float64(of(all[name], tokens))/float64(of(all["lingserve"], tokens)), us(of(all[name], cpu)),
			us(of(at[name], cpu)), float64(of(at[name], cpu))/float64(of(at["lingserve"], cpu)),
			duration(func(t turn) time.Duration { return t.P50 }), duration(func(t turn) time.Duration { return t.P99 }),
			duration(func(t turn) time.Duration { return t.End50 }), duration(func(t turn) time.Duration { return t.End99 }),
			kb(of(at[name], func(t turn) int { return t.memory })))
	}
	fmt.Println()
	return nil
}
