package ling

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
)

func TestWhatIsUsedWithoutABotIsToldAndSummedUp(t *testing.T) {
	m := New(t.Context(), bot.Config{}, &Options{Run: "r", Agent: "assistant", Session: "s"})
	m.Used("assistant", "demo:fast", adapter.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3})
	m.Used("assistant", "demo:demo", adapter.Usage{PromptTokens: 10, CompletionTokens: 20, TotalTokens: 30})
	m.Used("assistant", "demo:demo", adapter.Usage{})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	r := m.Peek(false)
	if diff := cmp.Diff(map[string]adapter.Usage{"assistant": {PromptTokens: 11, CompletionTokens: 22, TotalTokens: 33}}, r.Usage); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]string{"assistant": {"demo:fast", "demo:demo"}}, r.Models); diff != "" {
		t.Error(diff)
	}
	var told []string
	for e, err := range m.Tube().AllEvents(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, e.Name+" "+string(e.Value))
	}
	want := []string{
		`started {"run":"r","agent":"assistant","session":"s"}`,
		`usage {"bot":"assistant","model":"demo:fast","prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`,
		`usage {"bot":"assistant","model":"demo:demo","prompt_tokens":10,"completion_tokens":20,"total_tokens":30}`,
		`usage {"bot":"assistant","model":"demo:demo"}`,
		`finished {"status":"completed"}`,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
