// Package deploy holds the files that a server is set up with to what the server knows.
package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/web"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// isSetting says whether a variable sets something.
func isSetting(name string) bool {
	return slices.ContainsFunc(config.Settings(), func(s config.Setting) bool { return slices.Contains(s.Variables(), name) })
}

// load reads a file of settings with variables, as the server does.
func load(t *testing.T, file string, environ ...string) *config.Config {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lingserve.yaml")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(nil, append(environ, "LINGSERVE_CONFIG="+name))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	return c
}

func TestTheExampleOfSettingsIsOne(t *testing.T) {
	text := read(t, "lingserve.yaml")
	load(t, text)
	// What is left out in it is right, too, when the signs of comments are taken away.
	n := 0
	for _, part := range regexp.MustCompile(`(?m)^# \w+:\n(# {2,}.*\n)+`).FindAllString(text, -1) {
		n++
		part = regexp.MustCompile(`(?m)^# `).ReplaceAllString(part, "")
		load(t, regexp.MustCompile(`\{file: [^}]+\}`).ReplaceAllString(part, "sk-1"))
	}
	if n != 5 {
		t.Errorf("it shows %d things that can be set, want 5", n)
	}
}

// What follows are the members of Kubernetes' resources that ours have: a mistyped one is in none of them.
type (
	labels map[string]string
	meta   struct {
		Name        string
		Labels      labels
		Annotations labels
	}
	selector struct {
		MatchLabels labels `yaml:"matchLabels"`
	}
	statefulSet struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Replicas    int
			ServiceName string `yaml:"serviceName"`
			Selector    selector
			Template    struct {
				Metadata meta
				Spec     podSpec
			}
			VolumeClaimTemplates []struct {
				Metadata meta
				Spec     struct {
					AccessModes []string `yaml:"accessModes"`
					Resources   struct{ Requests labels }
				}
			} `yaml:"volumeClaimTemplates"`
		}
	}
	podSpec struct {
		ServiceAccountName            string `yaml:"serviceAccountName"`
		AutomountServiceAccountToken  bool   `yaml:"automountServiceAccountToken"`
		EnableServiceLinks            bool   `yaml:"enableServiceLinks"`
		TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsNonRoot        bool                  `yaml:"runAsNonRoot"`
			RunAsUser           int                   `yaml:"runAsUser"`
			RunAsGroup          int                   `yaml:"runAsGroup"`
			FSGroup             int                   `yaml:"fsGroup"`
			FSGroupChangePolicy string                `yaml:"fsGroupChangePolicy"`
			SeccompProfile      struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []container
		Volumes    []struct {
			Name     string
			EmptyDir *struct {
				SizeLimit string `yaml:"sizeLimit"`
			} `yaml:"emptyDir"`
			ConfigMap *struct{ Name string } `yaml:"configMap"`
		}
	}
	container struct {
		Name    string
		Image   string
		Args    []string
		Env     []struct{ Name, Value string }
		EnvFrom []struct {
			SecretRef struct{ Name string } `yaml:"secretRef"`
		} `yaml:"envFrom"`
		Ports          []containerPort
		StartupProbe   probe `yaml:"startupProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
		Lifecycle      struct {
			PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
		}
		Resources       struct{ Requests, Limits labels }
		SecurityContext struct {
			AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			SubPath   string `yaml:"subPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	containerPort struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	probe struct {
		HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
		PeriodSeconds    int                         `yaml:"periodSeconds"`
		TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
		FailureThreshold int                         `yaml:"failureThreshold"`
	}
	service struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Selector labels
			Ports    []struct {
				Name        string
				Port        int
				TargetPort  string `yaml:"targetPort"`
				AppProtocol string `yaml:"appProtocol"`
			}
		}
	}
	configMap struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Data       map[string]string
	}
	secret struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Type       string
		StringData map[string]string `yaml:"stringData"`
	}
	serviceAccount struct {
		APIVersion                   string `yaml:"apiVersion"`
		Kind                         string
		Metadata                     meta
		AutomountServiceAccountToken bool `yaml:"automountServiceAccountToken"`
	}
	budget struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			MaxUnavailable int `yaml:"maxUnavailable"`
			Selector       selector
		}
	}
	networkPolicy struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			PodSelector selector `yaml:"podSelector"`
			PolicyTypes []string `yaml:"policyTypes"`
			Ingress     []struct {
				From []struct {
					NamespaceSelector selector `yaml:"namespaceSelector"`
					PodSelector       selector `yaml:"podSelector"`
				}
				Ports []networkPort
			}
			Egress []struct {
				To []struct {
					NamespaceSelector selector `yaml:"namespaceSelector"`
					PodSelector       selector `yaml:"podSelector"`
					IPBlock           struct {
						CIDR   string
						Except []string
					} `yaml:"ipBlock"`
				}
				Ports []networkPort
			}
		}
	}
	networkPort   struct{ Port, Protocol string }
	kustomization struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Resources  []string
		Labels     []struct {
			Pairs            labels
			IncludeSelectors bool `yaml:"includeSelectors"`
		}
		Images []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
	}
)

// cluster is all that stands in deploy/kubernetes.
type cluster struct {
	statefulSet   statefulSet
	service       service
	account       serviceAccount
	budget        budget
	policy        networkPolicy
	kustomization kustomization
	secret        secret
	configMaps    map[string]configMap
	files         []string
}

func readCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{configMaps: map[string]configMap{}}
	names, err := filepath.Glob("kubernetes/*")
	if err != nil {
		t.Fatal(err)
	}
	apis := map[string]string{
		"StatefulSet": "apps/v1", "Service": "v1", "ConfigMap": "v1", "Secret": "v1", "ServiceAccount": "v1",
		"PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1", "Kustomization": "kustomize.config.k8s.io/v1beta1",
	}
	for _, name := range names {
		c.files = append(c.files, filepath.Base(name))
		for doc := range strings.SplitSeq(read(t, name), "\n---\n") {
			var head struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string
			}
			if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if apis[head.Kind] != head.APIVersion || head.Kind == "" {
				t.Errorf("%s: a %s of %s", name, head.Kind, head.APIVersion)
			}
			var m configMap
			into := map[string]any{
				"StatefulSet": &c.statefulSet, "Service": &c.service, "ConfigMap": &m, "Secret": &c.secret, "ServiceAccount": &c.account,
				"PodDisruptionBudget": &c.budget, "NetworkPolicy": &c.policy, "Kustomization": &c.kustomization,
			}[head.Kind]
			if err := yaml.Load([]byte(doc), into, yaml.WithKnownFields()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if head.Kind == "ConfigMap" {
				c.configMaps[m.Metadata.Name] = m
			}
			if strings.Contains(doc, "namespace:") {
				t.Errorf("%s says a namespace, which is for who applies it", name)
			}
		}
	}
	return c
}

func TestTheClustersFilesFitTogether(t *testing.T) {
	c := readCluster(t)
	pod := c.statefulSet.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	server := pod.Containers[0]
	ports := map[string]int{}
	for _, p := range server.Ports {
		ports[p.Name] = p.ContainerPort
	}

	t.Run("all are applied but the example of a secret", func(t *testing.T) {
		want := slices.DeleteFunc(slices.Clone(c.files), func(name string) bool { return name == "kustomization.yaml" || name == "secret.example.yaml" })
		got := slices.Sorted(slices.Values(c.kustomization.Resources))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if len(c.kustomization.Images) != 1 || c.kustomization.Images[0].Name != server.Image {
			t.Errorf("the image %s is not what %v replaces", server.Image, c.kustomization.Images)
		}
		if tag := c.kustomization.Images[0].NewTag; !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(tag) { // DO-09
			t.Errorf("the tag %q is not a version, so two pods may run different programs", tag)
		}
	})
	t.Run("what looks for the pod finds it", func(t *testing.T) {
		is := c.statefulSet.Spec.Template.Metadata.Labels
		for name, want := range map[string]labels{
			"stateful set": c.statefulSet.Spec.Selector.MatchLabels, "service": c.service.Spec.Selector, "budget": c.budget.Spec.Selector.MatchLabels,
			"policy": c.policy.Spec.PodSelector.MatchLabels, "kustomization": c.kustomization.Labels[0].Pairs,
		} {
			if diff := cmp.Diff(is, want); diff != "" || len(want) == 0 {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if c.statefulSet.Spec.ServiceName != c.service.Metadata.Name || pod.ServiceAccountName != c.account.Metadata.Name {
			t.Errorf("the service is %s, the account %s", c.statefulSet.Spec.ServiceName, pod.ServiceAccountName)
		}
	})
	t.Run("ports have one name and number everywhere", func(t *testing.T) {
		named := func(port string) {
			t.Helper()
			if _, err := strconv.Atoi(port); err != nil && ports[port] == 0 {
				t.Errorf("there is no port %s", port)
			}
		}
		for _, p := range c.service.Spec.Ports {
			named(p.TargetPort)
			if p.TargetPort == "admin" {
				t.Error("the service leads to the port of metrics and profiles")
			}
		}
		for _, rule := range c.policy.Spec.Ingress {
			for _, p := range rule.Ports {
				named(p.Port)
				if p.Port == "admin" && len(rule.From) == 0 {
					t.Error("everybody may ask for metrics and profiles")
				}
				if p.Port == "internal" && (len(rule.From) != 1 || !maps.Equal(rule.From[0].PodSelector.MatchLabels, c.policy.Spec.PodSelector.MatchLabels)) {
					t.Error("others than replicas reach the internal listener")
				}
			}
		}
		notes := c.statefulSet.Spec.Template.Metadata.Annotations
		if notes["prometheus.io/port"] != strconv.Itoa(ports["admin"]) || notes["prometheus.io/scrape"] != "true" {
			t.Errorf("Prometheus looks at %v, metrics are at %d", notes, ports["admin"])
		}
	})
	t.Run("the server understands its settings", func(t *testing.T) {
		var environ []string
		for _, e := range server.Env {
			if !isSetting(e.Name) {
				t.Errorf("%s is no setting", e.Name)
			}
			environ = append(environ, e.Name+"="+e.Value)
		}
		for name := range c.secret.StringData {
			if !isSetting(name) {
				t.Errorf("%s of the secret is no setting", name)
			}
		}
		if len(server.EnvFrom) != 1 || server.EnvFrom[0].SecretRef.Name != c.secret.Metadata.Name {
			t.Errorf("variables are from %v, the secret is %s", server.EnvFrom, c.secret.Metadata.Name)
		}
		set := load(t, c.configMaps["lingserve"].Data["lingserve.yaml"], environ...)
		if !strings.HasSuffix(set.Addr, ":"+strconv.Itoa(ports["http"])) {
			t.Errorf("it listens on %s, its port is %d", set.Addr, ports["http"])
		}
		if want := "0.0.0.0:" + strconv.Itoa(ports["internal"]); set.InternalAddr != want {
			t.Errorf("the internal listener is at %s, want %s", set.InternalAddr, want)
		}
		took := set.Grace + time.Duration(server.Lifecycle.PreStop.Sleep.Seconds)*time.Second
		if left := time.Duration(pod.TerminationGracePeriodSeconds)*time.Second - took; left < 10*time.Second {
			t.Errorf("ending takes %v, and it is killed %v after that", took, left)
		}
		mounts := map[string]string{}
		for _, m := range server.VolumeMounts {
			mounts[m.MountPath] = m.Name
			here := m.Name == c.statefulSet.Spec.VolumeClaimTemplates[0].Metadata.Name
			for _, v := range pod.Volumes {
				if v.Name != m.Name {
					continue
				}
				here = true
				if v.ConfigMap == nil {
					continue
				}
				of, ok := c.configMaps[v.ConfigMap.Name]
				if _, has := of.Data[m.SubPath]; !ok || m.SubPath != "" && !has {
					t.Errorf("%s is of %s, which is not there", m.MountPath, v.ConfigMap.Name)
				}
			}
			if !here {
				t.Errorf("there is no volume %s", m.Name)
			}
		}
		if mounts[set.Data] != "data" || mounts[set.Workspace] != "workspace" || mounts[set.Workflows] != "workflows" {
			t.Errorf("data is in %s, the workspace %s, workflows in %s; there is %v", set.Data, set.Workspace, set.Workflows, mounts)
		}
		if want := []string{"serve", "--config", "/etc/lingserve/lingserve.yaml"}; !slices.Equal(server.Args, want) || mounts[want[2]] != "settings" {
			t.Errorf("it is called with %q", server.Args)
		}
	})
	t.Run("probes ask what the server answers", func(t *testing.T) {
		s, err := web.New(web.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for name, p := range map[string]probe{"startup": server.StartupProbe, "liveness": server.LivenessProbe, "readiness": server.ReadinessProbe} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", p.HTTPGet.Path, nil)
			r.Host = "10.1.2.3:8080" // a probe has the pod's address
			s.Handler().ServeHTTP(w, r)
			// DO-09: clients can use up the connections of the public port, and not those of the admin port, which answers these two alike.
			if w.Code != 200 || p.HTTPGet.Port != "admin" || p.FailureThreshold < 2 {
				t.Errorf("%s: %s of %s answers %d", name, p.HTTPGet.Path, p.HTTPGet.Port, w.Code)
			}
		}
	})
	t.Run("the pod may be run where the rules are strict", func(t *testing.T) { // Pod Security Standards: restricted
		s, k := pod.SecurityContext, server.SecurityContext
		if !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" || k.AllowPrivilegeEscalation || !k.ReadOnlyRootFilesystem || !slices.Equal(k.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%+v %+v", s, k)
		}
		if pod.AutomountServiceAccountToken || c.account.AutomountServiceAccountToken || pod.EnableServiceLinks {
			t.Error("it gets a token, or variables that look like settings")
		}
		if c.statefulSet.Spec.Replicas != 1 {
			t.Errorf("%d servers share nothing", c.statefulSet.Spec.Replicas)
		}
		limits, requests := server.Resources.Limits, server.Resources.Requests
		if limits["memory"] == "" || limits["memory"] != requests["memory"] || limits["cpu"] != "" {
			t.Errorf("its limits are %v, its requests %v", limits, requests)
		}
		if limits["ephemeral-storage"] == "" || requests["ephemeral-storage"] == "" { // DO-09
			t.Errorf("it has no ephemeral storage: limits %v, requests %v", limits, requests)
		}
		user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(read(t, "../Dockerfile"))
		if user == nil || user[1] != strconv.Itoa(s.RunAsUser) || user[2] != strconv.Itoa(s.FSGroup) {
			t.Errorf("the image's user is %v, the pod's %d", user, s.RunAsUser)
		}
	})
}

// A volume of a ConfigMap has links to a folder that is replaced as a whole, and other names that begin with dots.
func TestWorkflowsAreReadAsAClusterMountsThem(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2026_01_02"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..2026_01_02", filepath.Join(dir, "..data")); err != nil {
		t.Skipf("this system has no links: %v", err)
	}
	n := 0
	for name, text := range readCluster(t).configMaps["lingserve-workflows"].Data {
		n++
		err := os.WriteFile(filepath.Join(dir, "..2026_01_02", name), []byte(text), 0o644)
		if err = errors.Join(err, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	r, err := flow.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.All()); got != n || n == 0 {
		t.Errorf("%d workflows of %d are read", got, n)
	}
}

func TestTheUnitKnowsTheSettings(t *testing.T) {
	const name = "systemd/lingserve.service"
	text := read(t, name)
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no %s", key)
		}
		return m[1]
	}
	var environ []string
	home := ""
	for _, line := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(text, -1) {
		for kv := range strings.FieldsSeq(line[1]) {
			name, value, _ := strings.Cut(kv, "=")
			if name == "HOME" {
				home = value
				continue
			}
			if !isSetting(name) {
				t.Errorf("%s is no setting", name)
			}
			environ = append(environ, kv)
		}
	}
	c := load(t, read(t, "lingserve.yaml"), environ...)
	stop, err := strconv.Atoi(value("TimeoutStopSec"))
	if err != nil || time.Duration(stop)*time.Second < c.Grace+10*time.Second {
		t.Errorf("it is killed after %d s (%v), and needs %v", stop, err, c.Grace)
	}
	for _, folder := range []string{c.Data, c.Workspace, home} {
		if rel, ok := strings.CutPrefix(folder, "/var/lib/"); !ok || !slices.Contains(strings.Fields(value("StateDirectory")), rel) {
			t.Errorf("it may not write to %s", folder)
		}
	}
	if value("Type") != "notify" || value("Restart") != "on-failure" || value("NoNewPrivileges") != "yes" {
		t.Error("it is not told of the start, not started again, or may become another")
	}
	// DO-09: MCP servers in Node compile to memory, and the kernel ends them where this is set.
	if regexp.MustCompile(`(?m)^MemoryDenyWriteExecute=`).MatchString(text) {
		t.Error("programs with a JIT compiler cannot run")
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	// It looks for the program, which is not there.
	here := filepath.Join(t.TempDir(), "lingserve.service")
	if err := os.WriteFile(here, []byte(strings.Replace(text, "/usr/local/bin/lingserve", "/bin/sh", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", here).CombinedOutput(); err != nil || bytes.Contains(out, []byte("lingserve.service:")) {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

// ignored says what .dockerignore leaves out: the last line that fits decides. Its patterns are of the simple kinds that ours has.
func ignored(t *testing.T, rules []string, name string) bool {
	t.Helper()
	out := false
	for _, rule := range rules {
		pattern, not := strings.CutPrefix(rule, "!")
		rest, anywhere := strings.CutPrefix(pattern, "**/")
		for at := name; at != "."; at = path.Dir(at) { // a folder that is left out has all with it that is in it
			what := at
			if anywhere {
				pattern, what = rest, path.Base(at)
			}
			ok, err := path.Match(pattern, what)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				out = !not
			}
		}
	}
	return out
}

func TestTheImagesContextHasWhatTheServerIsBuiltFrom(t *testing.T) {
	var rules []string
	for line := range strings.Lines(read(t, "../.dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rules = append(rules, line)
		}
	}
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,GoFiles,EmbedFiles,Module", "./cmd/server")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	listed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for dec := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct {
			Dir                 string
			Standard            bool
			GoFiles, EmbedFiles []string
			Module              *struct {
				Main bool
				Dir  string
			}
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Standard || p.Module == nil || !p.Module.Main {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.EmbedFiles) {
			rel, err := filepath.Rel(p.Module.Dir, filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			n++
			if ignored(t, rules, filepath.ToSlash(rel)) {
				t.Errorf("%s does not get into the image", rel)
			}
		}
	}
	if n < 100 {
		t.Errorf("the server has %d files", n)
	}
	for _, name := range []string{".git/config", "lingserve.yaml", ".env", "data/tapes/x", "dist/lingserve", "bin/lingserve", "web/client/node_modules/x", "cmd/server/https_test.go"} {
		if !ignored(t, rules, name) {
			t.Errorf("%s gets into the image", name)
		}
	}
}

func TestTheImageIsMadeOfWhatIsThere(t *testing.T) {
	text := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(read(t, "../Dockerfile"), "")
	for _, m := range regexp.MustCompile(`(?m)^COPY (.*) \S+$`).FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "--from=build") {
			from := strings.Fields(m[1])
			// Made by the command before: a folder of it, or a file that is copied there.
			if at := from[len(from)-1]; !strings.Contains(text, at+" ") && !strings.Contains(text, path.Dir(at)+"/ ") && !strings.Contains(text, path.Dir(at)+"/\n") && !strings.Contains(text, at+"/") {
				t.Errorf("nothing makes %s", at)
			}
			continue
		}
		for from := range strings.FieldsSeq(m[1]) {
			if _, err := os.Stat(filepath.Join("..", from)); err != nil {
				t.Error(err)
			}
		}
	}
	// DO-09: whoever builds says which image builds, with its digest.
	for _, m := range regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(text, -1) {
		if m[1] != "scratch" && m[1] != "$GO_IMAGE" {
			t.Errorf("the image %s cannot be pinned", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(LINGSERVE_\w+)=(\S+)`).FindAllStringSubmatch(text, -1) {
		if !isSetting(m[1]) {
			t.Errorf("%s is no setting", m[1])
		}
	}
	var argv []string
	health := regexp.MustCompile(`(?m)^HEALTHCHECK .* CMD (\[.*\])$`).FindStringSubmatch(text)
	if health == nil || json.Unmarshal([]byte(health[1]), &argv) != nil || !slices.Equal(argv, []string{"/lingserve", "health"}) {
		t.Errorf("its health is asked by %v", health)
	}
	// What the binary is told of itself, it has variables for.
	version := read(t, "../cmd/server/version.go")
	for _, m := range regexp.MustCompile(`-X main\.(\w+)=`).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^var .*\b` + m[1] + `\b.* string$`).MatchString(version) {
			t.Errorf("%s is no variable of the server", m[1])
		}
	}
}
