package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Registry holds the workflows that can be run. It is safe for concurrent use; its zero value holds none and reads no folder.
type Registry struct {
	open      func() (fs.FS, io.Closer, error) // the folder; nil for none
	name      string                           // the folder's, for errors
	providers []string                         // see ParseSpec

	loading sync.Mutex // one Reload at a time; guards read
	read    string     // fingerprint of the folder when it was read last

	mu       sync.RWMutex
	defaults map[string]Workflow // by name
	files    map[string]Workflow // by file name
	code     map[string]Workflow // registered, by name
	all      map[string]Workflow // by name: those above, of which a later one replaces an earlier one
}

// Open reads every *.yaml, *.yml and *.json in dir (which may be "" for none). Files that a workflow names are read only
// inside dir, through an [os.Root]; providers are as for [ParseSpec]. The error joins the problems of all files; the registry holds those
// that are well. Files whose workflows have the same name are not: neither is in the registry.
func Open(dir string, providers ...string) (*Registry, error) {
	r := &Registry{name: dir, providers: providers}
	if dir == "" {
		return r, nil
	}
	// Opened for each reading, so that a folder that was put in place of another is the one that is read.
	r.open = func() (fs.FS, io.Closer, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, nil, &FileError{File: dir, Message: "cannot open the workflow folder: " + cause(err)}
		}
		return root.FS(), root, nil
	}
	return r, r.Reload()
}

// OpenFS is Open for files that are embedded in the program, or come from elsewhere; name stands for their folder in errors.
func OpenFS(name string, files fs.FS, providers ...string) (*Registry, error) {
	r := &Registry{name: name, providers: providers}
	r.open = func() (fs.FS, io.Closer, error) { return files, io.NopCloser(nil), nil }
	return r, r.Reload()
}

// Register adds a workflow, or replaces one of the same name. It goes before a file with that name and survives a reload.
func (r *Registry) Register(w Workflow) { r.register(&r.code, w) }

// RegisterDefault adds a workflow that is there as long as no other one of that name is, neither from a file nor registered.
func (r *Registry) RegisterDefault(w Workflow) { r.register(&r.defaults, w) }

func (r *Registry) register(in *map[string]Workflow, w Workflow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *in == nil {
		*in = map[string]Workflow{}
	}
	(*in)[w.Info().Name] = w
	r.index()
}

// index makes all anew; r.mu is held. Readers keep the map that they have: it is never changed.
func (r *Registry) index() {
	all := map[string]Workflow{}
	maps.Copy(all, r.defaults)
	for _, w := range r.files {
		all[w.Info().Name] = w
	}
	maps.Copy(all, r.code)
	r.all = all
}

// Get finds a workflow by name.
func (r *Registry) Get(name string) (Workflow, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w, ok := r.all[name]
	return w, ok
}

// All lists the workflows by name.
func (r *Registry) All() []Workflow {
	r.mu.RLock()
	all := r.all
	r.mu.RUnlock()
	var out []Workflow
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}

// Reload reads the folder again and puts what it holds in force at once. A broken file keeps its old workflow in force and
// is in the error; a file that is gone takes its workflow with it (FL-03). Where two files give their workflows the same name, the
// one that had it before keeps it.
func (r *Registry) Reload() error {
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.open == nil {
		return nil
	}
	files, closer, err := r.open()
	if err != nil {
		r.read = ""
		return err
	}
	defer closer.Close()
	r.read = fingerprint(files)
	names, err := workflowFiles(files)
	if err != nil {
		return &FileError{File: r.name, Message: "cannot read the workflow folder: " + cause(err)}
	}
	r.mu.RLock()
	old := r.files
	r.mu.RUnlock()
	loaded, named := map[string]Workflow{}, map[string][]string{} // by file; files by their workflow's name
	var errs []error
	for _, name := range names {
		w, err := r.load(name, regularFiles{files})
		if err != nil {
			errs = append(errs, err)
			if w = old[name]; w == nil {
				continue
			}
		}
		loaded[name] = w
		named[w.Info().Name] = append(named[w.Info().Name], name)
		if sharing := named[w.Info().Name]; len(sharing) > 1 {
			errs = append(errs, &FileError{File: path.Join(r.name, name), Line: 1, Column: 1, Message: fmt.Sprintf("the name %q is already used by %s; choose another name", w.Info().Name, sharing[0])})
		}
	}
	for name, sharing := range named {
		for _, file := range sharing {
			if len(sharing) > 1 && (old[file] == nil || old[file].Info().Name != name) {
				delete(loaded, file)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = loaded
	r.index()
	return errors.Join(errs...)
}

func (r *Registry) load(name string, files FileReader) (Workflow, error) {
	file := path.Join(r.name, name)
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, &FileError{File: file, Message: "cannot read the file: " + cause(err)}
	}
	return ParseSpec(file, text, files, r.providers...)
}

// workflowFiles lists the files of the folder that are workflows; hidden ones are an editor's.
func workflowFiles(files fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// cause is the text of a file's error without its path.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// regularFiles reads only ordinary files, and of each only a little more than is allowed: a pipe would wait for ever, and a device
// has no end.
type regularFiles struct{ fs.FS }

func (r regularFiles) ReadFile(name string) ([]byte, error) {
	if info, err := fs.Stat(r.FS, name); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, yaml.MaxBytes+1))
}

// fingerprint changes when a file in the folder changes, comes or goes. Hidden files and folders do not count. It is never "".
func fingerprint(files fs.FS) string {
	var b strings.Builder
	b.WriteString("files:\n")
	_ = fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it counts as empty
		case name != "." && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := fs.Stat(files, name); err == nil && !e.IsDir() { // of the file that a link leads to
			fmt.Fprintln(&b, name, info.ModTime().UnixNano(), info.Size(), info.Mode())
		}
		return nil
	})
	return b.String()
}

// watchInterval is how often Watch looks. Looking costs a stat for each file; an author who saves a file does not notice the wait.
const watchInterval = time.Second

// Watch reloads whenever a workflow's file, or a file that a workflow names, changes, until ctx ends. It calls report with the
// error of each reload, or nil. It looks at the files once a second.
func (r *Registry) Watch(ctx context.Context, report func(error)) {
	if r.open == nil {
		return
	}
	for backoff.Sleep(ctx, watchInterval) == nil {
		if r.changed() {
			report(r.Reload())
		}
	}
}

// changed says whether the files differ from those of the last reading.
func (r *Registry) changed() bool {
	r.loading.Lock()
	defer r.loading.Unlock()
	files, closer, err := r.open()
	if err != nil {
		return r.read != "" // the folder has gone: reported once
	}
	defer closer.Close()
	return fingerprint(files) != r.read
}
