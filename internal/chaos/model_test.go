//go:build nightly && unix

package chaos

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// model is the models' server of all replicas. What it says follows from what it is asked.
type model struct {
	fakeproviders.Server

	mu    sync.Mutex
	asked map[string]int      // how often, by input
	heard map[string][]string // the inputs of the same conversation that came before, when it was asked for an input last
}

func newModel() *model {
	m := &model{asked: map[string]int{}, heard: map[string][]string{}}
	m.Script = m.script
	return m
}

// An input says itself what the model answers to it: who asks, how many words come, how many a second, and whether a tool is called
// before.
var inputs = regexp.MustCompile(`^q[\d.a-z]+ (\d+) words (\d+) a second(, with a tool)?$`)

func inputOf(who string, words, pace int, tool bool) string {
	text := fmt.Sprintf("q%s %d words %d a second", who, words, pace)
	if tool {
		text += ", with a tool"
	}
	return text
}

// textOf is what the model says to an input.
func textOf(input string) string {
	m := inputs.FindStringSubmatch(input)
	n, err := strconv.Atoi(m[1])
	if err != nil {
		panic(err)
	}
	who, _, _ := strings.Cut(input, " ")
	words := make([]string, n)
	for i := range words {
		words[i] = who + "/" + strconv.Itoa(i)
	}
	return strings.Join(words, " ")
}

// docOf is the document of a run.
func docOf(input string, agent bool) string {
	text, err := json.Marshal(textOf(input))
	if err != nil {
		panic(err)
	}
	if agent {
		return string(text)
	}
	return `{"answer":` + string(text) + `}`
}

func (m *model) script(r fakeproviders.Request) fakeproviders.Answer {
	var said []string
	for _, message := range r.Messages {
		if message.Role != "user" {
			continue
		}
		for text := range strings.SplitSeq(message.Content, "\n\n") { // what had no answer is joined with what was said next
			if inputs.MatchString(text) {
				said = append(said, text)
			}
		}
	}
	if len(said) == 0 {
		return fakeproviders.Answer{Status: 400, Body: "this is nothing that a client of these tests says"}
	}
	input := said[len(said)-1]
	m.mu.Lock()
	m.asked[input]++
	m.heard[input] = slices.Clone(said[:len(said)-1])
	m.mu.Unlock()
	last := r.Messages[len(r.Messages)-1]
	if inputs.FindStringSubmatch(input)[3] != "" && last.Role == "user" {
		return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "call_1", Name: "tape_info", Arguments: "{}"}}, Delay: 20 * time.Millisecond}
	}
	pace, err := strconv.ParseFloat(inputs.FindStringSubmatch(input)[2], 64)
	if err != nil {
		panic(err)
	}
	return fakeproviders.Answer{Tokens: strings.SplitAfter(textOf(input), " "), Pace: pace}
}

// times is how often it was asked, and what had been said before when it was asked last.
func (m *model) times(input string) (int, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[input], m.heard[input]
}
