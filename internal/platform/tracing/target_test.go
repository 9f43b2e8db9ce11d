package tracing

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestWhereTracesGoFollowsTheSettingAndThenTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		name, setting string
		env           map[string]string
		want          string // "": off
	}{
		{"nothing is set", "", nil, ""},
		{"the setting", "http://c:4318", nil, "http://c:4318/v1/traces"},
		{"the setting wins", "http://c:4318/", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"},
			"http://c:4318/v1/traces"},
		{"the environment", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://d/otlp"},
			"https://d/otlp/v1/traces"},
		{"the environment for traces is taken as it is", "", map[string]string{
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://d/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://e"}, "https://d/x"},
		{"the exporter none", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://d",
			"OTEL_TRACES_EXPORTER": "none"}, ""},
		{"disabled", "http://c", map[string]string{"OTEL_SDK_DISABLED": "true"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := targetOf(Options{Endpoint: c.setting, Env: func(k string) string { return c.env[k] }})
			if err != nil || (got == nil) != (c.want == "") || got != nil && got.url != c.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestABadSettingIsNamed(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"--otlp-endpoint":             nil,
		"OTEL_EXPORTER_OTLP_ENDPOINT": {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
		"OTEL_EXPORTER_OTLP_HEADERS": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c",
			"OTEL_EXPORTER_OTLP_HEADERS": "key"},
		"OTEL_EXPORTER_OTLP_TIMEOUT": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c",
			"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
	} {
		o := Options{Env: func(k string) string { return env[k] }}
		if env == nil {
			o.Endpoint = "127.0.0.1:4318"
		}
		if _, err := targetOf(o); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASettingOfTheEnvironmentReachesTheRequest(t *testing.T) {
	env := map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20eA%3D%3D, x-a = b",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "1500"}
	got, err := targetOf(Options{Endpoint: "http://u:secret@c", Env: func(k string) string { return env[k] }})
	if err != nil || got.header.Get("Authorization") != "Basic eA==" || got.header.Get("X-A") != "b" ||
		got.timeout != 1500*time.Millisecond {
		t.Errorf("%+v, %v", got, err)
	}
	if strings.Contains(got.shown(), "secret") {
		t.Errorf("a password is shown: %s", got.shown())
	}
}

func TestOffCostsNothing(t *testing.T) {
	tracer, err := Start(context.Background(), Options{Env: func(string) string { return "" }, Log: zerolog.Nop()})
	if tracer != nil || err != nil {
		t.Fatal(tracer, err)
	}
	mine := Context{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
	cost := testing.AllocsPerRun(100, func() {
		s := tracer.Start("attempt", Client, mine, Context{}).Text("a", "b").Number("n", 1)
		if s.Context(mine) != mine {
			t.Error("the context was changed")
		}
		s.Failed("timeout")
		s.End()
	})
	if cost != 0 || tracer.Stop(context.Background()) != nil {
		t.Errorf("%v allocations", cost)
	}
}
