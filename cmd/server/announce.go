package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
)

// announce says what is there and how to try it.
func (s *server) announce(w io.Writer, base string) {
	c, log := s.c, s.log
	var names []string
	for _, w := range s.workflows.All() {
		info := w.Info()
		names = append(names, info.Name)
		for _, model := range info.Models() {
			if _, err := s.models.Model(model); err != nil {
				log.Warn("workflow names an unknown model", "workflow", info.Name, "error", err)
			}
		}
	}
	warnOfOptions(log, c, s.workflows)
	providers := []string{} // as JSON, too, there is a list
	for _, p := range c.Providers {
		if p.Set && p.Missing() == "" {
			providers = append(providers, p.Name)
		}
	}
	agents, channels := s.agents.Names(), s.channels.Names()
	if c.Log.Format == "json" {
		log.Info("listening", "url", base, "model", c.Model, "model_from", c.Source("model").String(), "providers", providers,
			"workflows", names, "agents", agents, "channels", channels, "version", build().version)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lingserve %s listens on %s\n", build().version, base)
	fmt.Fprintf(&b, "  model      %s", c.Model)
	if from := c.Source("model"); from.Kind == config.Default && from.Name != "" {
		fmt.Fprintf(&b, " (%s)", from.Name)
	}
	fmt.Fprintln(&b)
	switch {
	case !strings.HasPrefix(c.Model, "demo:"):
	case len(providers) > 0 && c.Source("model").Kind == config.Default:
		// One that is set up and has no models listed, or it would be the default.
		fmt.Fprintf(&b, "             scripted: needs no network, knows nothing. %s is set up, but no model of it is chosen:\n"+
			"             use --model %s:NAME, or list models in providers.%s.models\n", providers[0], providers[0], providers[0])
	default:
		fmt.Fprint(&b, "             scripted: needs no network, knows nothing. For a real model, set OPENAI_API_KEY or another provider's key,\n"+
			"             or use --model ollama:NAME if Ollama runs; docs/models.md lists all providers\n")
	}
	if len(providers) > 0 {
		fmt.Fprintf(&b, "  providers  %s\n", strings.Join(providers, ", "))
	}
	if len(names) == 0 {
		fmt.Fprintf(&b, "  workflows  none (%s)\n", s.from)
	} else {
		fmt.Fprintf(&b, "  workflows  %s (%s)\n", strings.Join(names, ", "), s.from)
	}
	fmt.Fprintf(&b, "  agents     %s\n", strings.Join(agents, ", "))
	if len(channels) > 0 {
		fmt.Fprintf(&b, "  channels   %s\n", strings.Join(channels, ", "))
	}
	if try := tryLine(base, c.Auth.On(), s.workflows); try != "" {
		fmt.Fprintf(&b, "  try        %s\n", try)
	}
	fmt.Fprintln(&b)
	io.WriteString(w, b.String())
}

// tryLine is a command that works when it is pasted into a terminal.
func tryLine(base string, keyed bool, workflows *flow.Registry) string {
	const question = "Why is the sky blue?"
	input, _ := json.Marshal(question)
	var first string
	for _, w := range workflows.All() {
		name := w.Info().Name
		if _, err := flow.Prepare(w, input); err == nil && (first == "" || name == "encyclopedia") {
			first = name
		}
	}
	if first == "" {
		return ""
	}
	query := "workflow=" + url.QueryEscape(first) + "&input=" + url.QueryEscape(question) + "&format=jsonl"
	key := ""
	if keyed {
		key = `-H "Authorization: Bearer $` + config.ClientKey + `" `
	}
	return "curl -N " + key + "'" + base + "/v1/runs?" + query + "'"
}
