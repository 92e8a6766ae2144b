package flow

import "slices"

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
