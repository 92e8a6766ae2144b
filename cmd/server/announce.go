package main

import (
	"cmp"
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
	model := c.Model
	if from := c.Source("model"); from.Kind == config.Default && from.Name != "" {
		model += " (" + from.Name + ")"
	}
	if strings.HasPrefix(c.Model, "demo:") {
		model += "\n             scripted: needs no network, knows nothing. For a real model, set OPENAI_API_KEY or another provider's key,\n" +
			"             or use --model PROVIDER:NAME; docs/models.md lists all providers"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lingserve %s listens on %s\n", build().version, base)
	for _, row := range [][2]string{
		{"model", model},
		{"providers", strings.Join(providers, ", ")},
		{"workflows", cmp.Or(strings.Join(names, ", "), "none") + " (" + s.from + ")"},
		{"agents", strings.Join(agents, ", ")},
		{"channels", strings.Join(channels, ", ")},
		{"try", tryLine(base, c.Auth.On(), s.workflows)},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "  %-10s %s\n", row[0], row[1])
		}
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
