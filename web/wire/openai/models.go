package openai

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/web/wire"
)

// Model is a model as OpenAI lists them.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// Default is ours, for a page that offers a choice; clients of this shape pass over what they do not know.
	Default bool `json:"default,omitempty"`
}

// models are the models that can be used: those that are configured, the default, and what the workflows name at this moment; and
// behind them the agents and workflows, which take a model's place for OpenAI's clients. It has what the caller may use.
func (h Handlers) models(p access.Principal) (list []Model) {
	first := adapter.Links(cmp.Or(h.Bot.Model, h.Models.Default))[0]
	add := func(name, owner string, first bool) {
		// Nothing says when a model was made, but these clients need a number.
		list = append(list, Model{name, "model", h.Began.Unix(), owner, first})
	}
	for _, name := range h.Runs.ListModels() {
		if !p.Runs("") {
			break
		}
		provider, _, _ := strings.Cut(name, ":")
		add(name, provider, name == first)
	}
	agents, workflows := h.Targets(p)
	for _, name := range agents {
		add(name, "agent", false)
	}
	for _, name := range workflows {
		add(name, "workflow", false)
	}
	return list
}

// GetModels lists the models in the shape of OpenAI's list.
func (h Handlers) GetModels(w http.ResponseWriter, r *http.Request) {
	h.SendJSON(w, r, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []Model `json:"data"`
	}{"list", append([]Model{}, h.models(wire.Who(r))...)})
}

// GetModel describes one of them. Its name may have slashes, escaped or not.
func (h Handlers) GetModel(w http.ResponseWriter, r *http.Request) *wire.Problem {
	name := wire.PathValue(r, "*")
	target, _ := h.Target(wire.Who(r), name)
	for _, m := range h.models(wire.Who(r)) {
		if of, ok := h.Target(wire.Who(r), m.ID); m.ID == name || ok && of == target {
			m.ID = name // it may have a prefix that it does not need
			h.SendJSON(w, r, http.StatusOK, m)
			return nil
		}
	}
	return noModel(name)
}
