package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/wording"
)

// maxClose is how many names a model is offered instead of one that is not known.
const maxClose = 3

// unknown returns the error message for an unknown tool, with the names that may have been meant.
func unknown(name string, tools []*Tool) string {
	text := fmt.Sprintf("unknown tool %q", wording.Clip(name))
	if near := Close(name, tools); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	} else if len(tools) == 0 {
		text += "; there are no tools"
	}
	return text
}

// Close lists up to three names of tools, as a model sees them, that a name may have been meant for, the closest first.
func Close(name string, tools []*Tool) []string {
	if len(name) > 2*MaxName { // what is compared with it is no longer than that
		return nil
	}
	name = strings.ToLower(Wire(name))
	most := min(max(2, len(name)/4), len(name)-1)
	type near struct {
		name string
		far  int
	}
	var found []near
	for _, t := range tools {
		// Models also leave out the part before the last dot.
		last := t.Name[strings.LastIndexByte(t.Name, '.')+1:]
		far := min(edits.Between(name, strings.ToLower(t.Wire()), most), 1+edits.Between(name, strings.ToLower(last), most))
		if far <= most {
			found = append(found, near{t.Wire(), far})
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name)) })
	var names []string
	for _, n := range found[:min(len(found), maxClose)] {
		names = append(names, n.name)
	}
	return names
}
