package flow

import "slices"

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
