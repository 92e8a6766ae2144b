package flow

import (
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Models lists the models that the workflow names itself, each once; chains as they are written.
func (i Info) Models() (models []string) {
	models = addNew(models, i.Model)
	if i.Graph != nil {
		for _, n := range i.Graph.Bots {
			models = addNew(models, n.Model)
		}
	}
	return models
}

// Models lists the models that the workflows name, each once, in the order of the workflows.
func (r *Registry) Models() (models []string) {
	for _, w := range r.All() {
		models = addNew(models, w.Info().Models()...)
	}
	return models
}

// addNew appends those of names that are not "" and not in list.
func addNew(list []string, names ...string) []string {
	for _, name := range names {
		if name != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
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
