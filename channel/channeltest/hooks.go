package channeltest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

// hooks are the abilities that the kernel finds by looking, each with its one method or methods.
var hooks = func() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[channel.Classifier](), reflect.TypeFor[channel.Preflighter](), reflect.TypeFor[channel.Finalizer](),
		reflect.TypeFor[channel.Challenger](), reflect.TypeFor[channel.Previewer](), reflect.TypeFor[channel.Pacer](),
		reflect.TypeFor[channel.Worker](), reflect.TypeFor[channel.Durabler](), reflect.TypeFor[channel.Reconciler](),
		reflect.TypeFor[channel.Idempotent](), reflect.TypeFor[channel.Provider](), reflect.TypeFor[channel.Repeater](),
	} {
		for i := range t.NumMethod() {
			m[t.Method(i).Name] = t
		}
	}
	return m
}()

// Hooks fails the test for each method of v that has the name of an ability's, while v does not have the ability: its signature is
// another one, or a second method is missing, and the kernel would never call it (CH-07). except are methods that only have such a
// name by chance.
func Hooks(t testing.TB, v any, except ...string) {
	t.Helper()
	for _, miss := range misses(v, except) {
		t.Error(miss)
	}
}

func misses(v any, except []string) (list []string) {
	have := reflect.TypeOf(v)
	for i := range have.NumMethod() {
		method := have.Method(i)
		want, known := hooks[method.Name]
		if !known || have.Implements(want) || slices.Contains(except, method.Name) {
			continue
		}
		// The first parameter of a method is who it belongs to.
		signature := strings.Replace(method.Type.String(), "func("+have.String()+", ", "func(", 1)
		signature = strings.Replace(signature, "func("+have.String()+")", "func()", 1)
		var needs []string
		for j := range want.NumMethod() {
			needs = append(needs, want.Method(j).Name+strings.TrimPrefix(want.Method(j).Type.String(), "func"))
		}
		list = append(list, have.String()+"."+method.Name+" is "+signature+": never called; a channel."+want.Name()+" has "+strings.Join(needs, " and "))
	}
	return list
}
