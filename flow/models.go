package flow

import (
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Models lists the models that the workflow names itself, each once; chains as they are written.
func (i Info) Models() (models []string) {
	add := func(model string) {
		if model != "" && !slices.Contains(models, model) {
			models = append(models, model)
		}
	}
	add(i.Model)
	if i.Graph != nil {
		for _, n := range i.Graph.Bots {
			add(n.Model)
		}
	}
	return models
}

// Models lists the models that the workflows name, each once, in the order of the workflows.
func (r *Registry) Models() (models []string) {
	for _, w := range r.All() {
		for _, model := range w.Info().Models() {
			if !slices.Contains(models, model) {
				models = append(models, model)
			}
		}
	}
	return models
}

// Lacking says which options of a workflow's file do not reach a model that its bots ask, each a *[FileError] with its place, since the
// provider has no place for them. lacking lists them by model, "" being the default one and a chain standing for all of its models;
// [adapter.Lacking] knows them by the kind of the provider.
func Lacking(w Workflow, lacking func(model string, o adapter.Options) []string) (problems []error) {
	s, ok := w.(*spec)
	if !ok {
		return nil
	}
	told := map[FileError]bool{}
	for _, b := range s.bots {
		model := b.model
		if model == "" {
			model = s.model
		}
		for _, at := range []struct {
			options adapter.Options
			node    *yaml.Node
		}{{b.options, b.optionsAt}, {s.options, s.optionsAt}} {
			if at.node == nil {
				continue
			}
			for _, name := range lacking(model, at.options) {
				n := at.node.Find(strings.Split(name, "."))
				e := FileError{File: s.file, Line: n.Line, Column: n.Column, Message: "options." + name + " is not sent: the provider of the bot's model has no place for it"}
				if !told[e] {
					told[e] = true
					problems = append(problems, &e)
				}
			}
		}
	}
	return problems
}
