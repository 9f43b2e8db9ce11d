package compose

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestImagesArePinnedToTheVersionsThatWeTest(t *testing.T) {
	goMod := read(t, "go.mod")
	version := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(goMod)
		if m == nil {
			t.Fatalf("go.mod has no %s", pattern)
		}
		return m[1]
	}
	nats := version(`nats-server/v2 v(\S+)`)
	for name, s := range load(t).Services {
		switch {
		case s.Build != nil:
			if !strings.HasPrefix(s.Image, "waybill:") {
				t.Errorf("%s: image %s is built here but not called waybill", name, s.Image)
			}
		case strings.HasPrefix(s.Image, "nats:"):
			if s.Image != "nats:"+nats+"-alpine" {
				t.Errorf("%s: image %s, but go.mod has nats-server %s", name, s.Image, nats)
			}
		case strings.HasPrefix(s.Image, "clickhouse/"):
			if s.Image != "clickhouse/clickhouse-server:"+engine.LibraryVersion {
				t.Errorf("%s: image %s, but the engine is %s", name, s.Image, engine.LibraryVersion)
			}
		default:
			t.Errorf("%s: image %s is pinned to nothing that this test knows", name, s.Image)
		}
	}
	bases := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
	if len(bases) != 2 {
		t.Fatalf("Dockerfile has %d stages, want 2", len(bases))
	}
	for _, base := range bases {
		if !regexp.MustCompile(`:\d+\.\d+\.\d+`).MatchString(base[1]) {
			t.Errorf("Dockerfile: base %s is not pinned to a patch release", base[1])
		}
	}
	if want := "golang:" + version(`(?m)^go (\S+)$`) + "-"; !strings.HasPrefix(bases[0][1], want) {
		t.Errorf("Dockerfile builds with %s, go.mod wants %s", bases[0][1], want)
	}
}

func TestTheImageRunsAsAnOrdinaryUserAndHoldsEveryCommandThatComposeRuns(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(dockerfile) {
		t.Error("Dockerfile: no USER with a number that is not root's")
	}
	for name, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		line := slices.Concat([]string(s.Entrypoint), []string(s.Command))
		if len(line) == 0 || !strings.Contains(dockerfile, "./cmd/"+line[0]) {
			t.Errorf("%s runs %q, which the image does not hold", name, line)
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || len(s.SecurityOpt) == 0 {
			t.Errorf("%s has rights that it does not need", name)
		}
	}
}

func TestEveryServiceIsWatchedRestartedAndBounded(t *testing.T) {
	for name, s := range load(t).Services {
		reason, _ := s.Extensions["x-no-healthcheck"].(string)
		if (s.HealthCheck == nil) == (reason == "") {
			t.Errorf("%s needs a health check or, in x-no-healthcheck, the reason for none", name)
		}
		if s.Restart == "" {
			t.Errorf("%s has no restart policy", name)
		}
		if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes == 0 {
			t.Errorf("%s has no memory limit", name)
		}
		if reason == "" && s.StopGracePeriod == nil {
			t.Errorf("%s has no stop grace period: it would be killed after ten seconds", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s offers port %d on %q: by default only this machine may reach it", name, p.Target, p.HostIP)
			}
		}
	}
}

func TestNoServiceWaitsForWhatCannotComeTrue(t *testing.T) {
	services := load(t).Services
	for name, s := range services {
		for on, d := range s.DependsOn {
			dependency := services[on]
			switch d.Condition {
			case types.ServiceConditionHealthy:
				if dependency.HealthCheck == nil {
					t.Errorf("%s waits for %s to be healthy, which has no health check", name, on)
				}
			case types.ServiceConditionCompletedSuccessfully:
				if dependency.Restart != types.RestartPolicyOnFailure {
					t.Errorf("%s waits for %s to end, which is restarted", name, on)
				}
			default:
				t.Errorf("%s waits for %s to have been started, which says nothing", name, on)
			}
		}
	}
	for _, stage := range commands[:6] {
		if _, ok := services[stage].DependsOn["streams"]; !ok {
			t.Errorf("%s does not wait for the streams", stage)
		}
	}
}

func TestDataLivesInVolumesAndMountedFilesExist(t *testing.T) {
	project := load(t)
	used := map[string]string{}
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			switch v.Type {
			case types.VolumeTypeVolume:
				if _, declared := project.Volumes[v.Source]; !declared {
					t.Errorf("%s: volume %s is not declared", name, v.Source)
				}
				if other, taken := used[v.Source]; taken {
					t.Errorf("%s and %s share volume %s", name, other, v.Source)
				}
				used[v.Source] = name
			case types.VolumeTypeBind:
				if info, err := os.Stat(v.Source); err != nil || !info.Mode().IsRegular() || !v.ReadOnly {
					t.Errorf("%s: mount %s is not a file that can only be read: %v", name, v.Source, err)
				}
			}
		}
	}
	if len(used) != len(project.Volumes) || len(used) != 4 {
		t.Errorf("%d of %d volumes are used, want each of 4", len(used), len(project.Volumes))
	}
}

// A secret is mounted into those that need it, and is not in the repository.
func TestTheSinkAloneHasTheKeyThatSignsCheckpoints(t *testing.T) {
	project := load(t)
	for name, s := range project.Services {
		for _, secret := range s.Secrets {
			if name != "ledger-sink" || secret.Source != "checkpoint-key" {
				t.Errorf("%s has secret %s", name, secret.Source)
			}
		}
		key := s.Environment["WAYBILL_CHECKPOINT_KEY"]
		if is := key != nil && *key == "/run/secrets/checkpoint-key" && len(s.Secrets) == 1; is != (name == "ledger-sink") {
			t.Errorf("%s: checkpoint key %v, secrets %v", name, key, s.Secrets)
		}
	}
	if file := project.Secrets["checkpoint-key"].File; !strings.HasSuffix(file, "/secrets/checkpoint.key") ||
		!strings.Contains(read(t, ".gitignore"), "\n/secrets/\n") {
		t.Errorf("the key's file is %q", file)
	}
}

// Each WAYBILL_ variable must be a flag of the very command that it is given
// to: a misspelt one would be ignored without a word.
func TestEveryVariableIsAFlagOfItsCommand(t *testing.T) {
	const anySubcommand = "waybill" // the service for people runs any of them
	for name, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		line := slices.Concat([]string(s.Entrypoint), []string(s.Command))
		helps := [][]string{append(slices.Clone(line[1:]), "--help")}
		if name == anySubcommand {
			helps = [][]string{{"endpoint", "create", "--help"}, {"delivery", "list", "--help"}, {"help", "connection"}}
		}
		var text strings.Builder
		for _, args := range helps {
			out, err := exec.Command(filepath.Join(bin, line[0]), args...).CombinedOutput()
			if err != nil {
				t.Errorf("%s %q: %v\n%s", line[0], args, err, out)
			}
			text.Write(out)
		}
		for variable := range maps.Keys(s.Environment) {
			flag, ours := strings.CutPrefix(variable, "WAYBILL_")
			flag = "--" + strings.ReplaceAll(strings.ToLower(flag), "_", "-") + " "
			if ours && !strings.Contains(text.String(), flag) && !strings.Contains(text.String(), variable) {
				t.Errorf("%s: %s is no flag of %q", name, variable, line)
			}
			if !ours && variable != "GOMEMLIMIT" {
				t.Errorf("%s: nothing reads %s", name, variable)
			}
		}
	}
}

func TestTheExampleNamesEveryVariableOfComposeAndNoOther(t *testing.T) {
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(read(t, "compose.yaml"), -1) {
		used[m[1]] = true
	}
	given := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=`).FindAllStringSubmatch(read(t, "deploy/env.example"), -1) {
		given[m[1]] = true
	}
	if !maps.Equal(used, given) {
		t.Errorf("compose.yaml uses %q, deploy/env.example gives %q", slices.Sorted(maps.Keys(used)),
			slices.Sorted(maps.Keys(given)))
	}
	for _, secret := range []string{"NATS_PASSWORD", "CLICKHOUSE_SINK_PASSWORD", "WAYBILL_SECRETS_KEY"} {
		if !strings.Contains(read(t, "compose.yaml"), "${"+secret+":?") {
			t.Errorf("compose.yaml starts without %s", secret)
		}
	}
}
