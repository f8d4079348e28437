package identity_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/identity"
)

const hidden = "0pen-sesame"

func shipped(t *testing.T, name string) *identity.Extractor {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "guards", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var guard rotationv1.CredentialGuard
	if err := yaml.UnmarshalStrict(text, &guard); err != nil {
		t.Fatal(err)
	}
	extractor, err := identity.Compile(guard.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return extractor
}

func data(pairs ...string) map[string][]byte {
	data := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	return data
}

// rabbit is a transport URL as infra-operator writes it: user and password escaped, once for each host.
func rabbit(user string) string {
	at := url.QueryEscape(user) + ":" + url.QueryEscape(hidden+"@:,/") + "@"
	return "rabbit://" + at + "rabbitmq-0.openstack.svc:5671," + at + "rabbitmq-1.openstack.svc:5671/nova?ssl=1"
}

const authSections = `
[keystone_authtoken]
auth_type = v3applicationcredential
application_credential_id = 6cb3c7a0d2a14f1c8c7f0c8e9d1b2a3f
application_credential_secret = 0pen-sesame
[placement]
auth_type = v3applicationcredential
application_credential_id = 6cb3c7a0d2a14f1c8c7f0c8e9d1b2a3f
application_credential_secret = 0pen-sesame
`

const withPassword = `
[keystone_authtoken]
auth_type = password
username = nova
password = 0pen-sesame
`

// TestShippedGuards reads Secrets written as the stock operators write them.
func TestShippedGuards(t *testing.T) {
	const acID = "6cb3c7a0d2a14f1c8c7f0c8e9d1b2a3f"
	nova := func(conf string) map[string][]byte {
		return data("01-nova.conf", conf, "nova-blank.conf", "", "02-nova-override.conf", "# override\n",
			"nova-compute-config.json", `{"command":"nova-compute"}`, "rabbitmq_user_name", "nova-b562b443")
	}
	for _, tt := range []struct {
		name, guard, secret string
		data                map[string][]byte
		want                string // identities, or the error after "!"
	}{
		{"nova", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\nlog_dir=/x\ntransport_url=" + rabbit("user7") + "\n" + authSections), "user7"},
		{"nova with notifications on another bus", "rabbitmquser", "nova-cell2-compute-config",
			nova("[DEFAULT]\ntransport_url=" + rabbit("user7") + "\n[oslo_messaging_notifications]\ntransport_url = " + rabbit("notify3") + "\ndriver=messagingv2\n"), "notify3 user7"},
		{"nova without notifications", "rabbitmquser", "nova-cell2-compute-config",
			nova("[DEFAULT]\ntransport_url=" + rabbit("user7") + "\n[oslo_messaging_notifications]\ndriver = noop\n"), "user7"},
		{"nova with an override", "rabbitmquser", "nova-cell1-compute-config",
			data("01-nova.conf", "[DEFAULT]\ntransport_url="+rabbit("user7")+"\n", "02-nova-override.conf", "[DEFAULT]\ntransport_url="+rabbit("other")+"\n"), "other user7"},
		{"nova with a user that has to be escaped", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\ntransport_url=" + rabbit("a+b c@d:e/é%") + "\n"), "!identity has blanks"},
		{"nova with strange letters", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\ntransport_url=" + rabbit("a+b@d:e/é%") + "\n"), "a+b@d:e/é%"},
		{"nova without a bus", "rabbitmquser", "nova-cell1-compute-config", nova("[DEFAULT]\n[other]\ntransport_url=" + rabbit("user7")),
			"!Secret nova-cell1-compute-config, key nova-blank.conf: there is no credential"},
		{"nova without its files", "rabbitmquser", "nova-cell1-compute-config", data(),
			"!Secret nova-cell1-compute-config, key *.conf: there is no credential"},
		{"nova with a URL in a comment", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\n# transport_url=" + rabbit("old") + "\ntransport_url=" + rabbit("user7") + "\n"), "user7"},
		{"nova with a URL composed of options", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\ntransport_url=rabbit://$user:x@h/\n"), "!composed"},
		{"nova with another driver", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\ntransport_url=fake://user7:x@h/\n"), "!no URL of the guard's schemes"},
		{"nova with a URL of one user and two hosts", "rabbitmquser", "nova-cell1-compute-config",
			nova("[DEFAULT]\ntransport_url=rabbit://user7:x@h:1,g:1/\n"), "!a host of the URL has no user"},
		{"nova cut off", "rabbitmquser", "nova-cell1-compute-config", nova("[DEFAULT\ntransport_url=" + rabbit("user7")), "!no INI file"},
		{"nova in another encoding", "rabbitmquser", "nova-cell1-compute-config", nova("\xff\xfe"), "!not UTF-8"},
		{"neutron-dhcp", "rabbitmquser", "neutron-dhcp-agent-neutron-config",
			data("10-neutron-dhcp.conf", "[DEFAULT]\ntransport_url = "+rabbit("neutron1")+"\n"), "neutron1"},
		{"neutron-sriov", "rabbitmquser", "neutron-sriov-agent-neutron-config",
			data("10-neutron-sriov.conf", "[DEFAULT]\ntransport_url = "+rabbit("neutron1")+"\n"), "neutron1"},
		{"neutron-metadata", "rabbitmquser", "neutron-ovn-metadata-agent-neutron-config",
			data("10-neutron-metadata.conf", "[ovn]\novn_sb_connection=ssl:a:6642\n"), ""},
		{"neutron-ovn", "rabbitmquser", "neutron-ovn-agent-neutron-config", data("10-neutron-ovn.conf", "[ovn]\n"), ""},
		{"ceilometer has no bus", "rabbitmquser", "ceilometer-compute-config-data", data("ceilometer.conf", "[DEFAULT]\n"), ""},
		{"of no interest", "rabbitmquser", "nova-metadata-neutron-config", data("05-nova-metadata.conf", "\xff"), ""},

		{"nova", "keystoneapplicationcredential", "nova-cell1-compute-config", nova("[DEFAULT]\n" + authSections), acID},
		{"nova with a password", "keystoneapplicationcredential", "nova-cell1-compute-config", nova("[DEFAULT]\n" + withPassword), ""},
		{"ceilometer", "keystoneapplicationcredential", "ceilometer-compute-config-data",
			data("ceilometer.conf", "[service_credentials]\nauth_type=v3applicationcredential\napplication_credential_id="+acID+"\napplication_credential_secret="+hidden+"\n", "polling.yaml", "---\n"), acID},
		{"ceilometer ipmi with a password", "keystoneapplicationcredential", "ceilometer-ipmi-config-data",
			data("ceilometer.conf", "[service_credentials]\nauth_type=password\nusername=ceilometer\npassword="+hidden+"\n"), ""},
	} {
		t.Run(tt.guard+": "+tt.name, func(t *testing.T) {
			extractor := shipped(t, tt.guard)
			got, err := extractor.Identities(tt.secret, tt.data)
			if want, fails := strings.CutPrefix(tt.want, "!"); fails {
				var notFound *identity.NotFoundError
				if !errors.As(err, &notFound) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), hidden) || notFound.Secret != tt.secret {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if strings.Join(got, " ") != tt.want || err != nil || got == nil {
				t.Errorf("got %q, %v", got, err)
			}
			if want := tt.secret != "nova-metadata-neutron-config"; extractor.Covers(tt.secret) != want {
				t.Errorf("covered: %t", !want)
			}
		})
	}
}

// TestReaders reads one value each in the ways that the shipped guards do not need.
func TestReaders(t *testing.T) {
	for _, tt := range []struct{ name, source, value, want string }{
		{"regexp, every match once", `{regexp: 'user=(?P<identity>\w+)'}`, "user=b user=a user=b", "a b"},
		{"regexp without a match", `{regexp: 'user=(?P<identity>\w+)', presence: Optional}`, "nobody", "!finds nothing"},
		{"regexp of nothing", `{regexp: 'user=(?P<identity>\w+)', presence: Optional}`, " ", ""},
		{"regexp that takes too much", `{regexp: 'user=(?P<identity>\w+)'}`, "user=" + strings.Repeat("a", 254), "!longer than 253"},
		{"URLs among others", `{urlUser: {schemes: [amqp]}}`, "see http://x/ and amqp://a:p@h/ and AMQP://b:p@h", "a b"},
		{"URL with a bad escape", `{urlUser: {schemes: [amqp]}}`, "amqp://%zz:p@h/", "!not escaped"},
		{"regexp in INI", `{ini: {section: s, key: k, regexp: '^ac-(?P<identity>\w+)$'}}`, "[S]\nK: 'ac-1'\n", "1"},
		{"INI over several lines", `{ini: {section: s, key: k, regexp: '(?m)^(?P<identity>\d)$'}}`, "[s]\nk = 1\n  2\n\n[t]\nk=3\n", "1 2"},
		{"INI, last and first", `{ini: {section: s, key: k}}`, "[s]\nk=a\n[t]\nk=x\n[s]\nk=b\n", "a b"},
		{"INI, empty", `{ini: {section: s, key: k}}`, "[s]\nk=\n", "!no credential"},
		{"INI, composed", `{ini: {section: s, key: k}}`, "[s]\nk=${t.k}\n", "!composed"},
		{"INI, a stray blank", `{ini: {section: s, key: k}}`, "[s]\n k=a\n", "!no INI file"},
		{"INI, no option", `{ini: {section: s, key: k}}`, "[s]\nk\n", "!no INI file"},
		{"JSON", `{jsonPath: '{.users[*].name}'}`, `{"users":[{"name":"b"},{"name":"a"}]}`, "a b"},
		{"JSON without the field", `{jsonPath: '{.user}', presence: Optional}`, `{"name":"b"}`, ""},
		{"JSON with a number", `{jsonPath: '{.user}'}`, `{"user":7}`, "!does not lead to a string"},
		{"no JSON", `{jsonPath: '{.user}'}`, `user: 0pen-sesame`, "!not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			extractor, err := compile(t, tt.source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := extractor.Identities("s", data("k", tt.value))
			if want, fails := strings.CutPrefix(tt.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), hidden) {
					t.Errorf("got %q, %v", got, err)
				}
			} else if strings.Join(got, " ") != tt.want || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func compile(t *testing.T, source string) (*identity.Extractor, error) {
	t.Helper()
	spec := rotationv1.CredentialGuardSpec{Credential: rotationv1.CredentialKind{IdentityPaths: []string{".metadata.name"}},
		Sources: []rotationv1.CredentialSource{{SecretNames: []string{"s"}, Keys: []string{"k"}}}}
	if err := yaml.UnmarshalStrict([]byte(source), &spec.Sources[0]); err != nil {
		t.Fatal(err)
	}
	return identity.Compile(spec)
}

// TestCompileRefuses what would read passwords, too much or nothing.
func TestCompileRefuses(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{`{}`, "exactly one of them is needed, there are 0"},
		{`{regexp: '(?P<identity>a)', jsonPath: '{.a}'}`, "there are 2"},
		{`{regexp: '(?P<identity>a'}`, "missing closing"},
		{`{regexp: '(a+)'}`, "one named group is needed"},
		{`{regexp: '(?P<user>a+)'}`, "one named group is needed"},
		{`{regexp: '(?P<identity>a+):(?P<password>b+)'}`, "and no other"},
		{`{regexp: '(?:x(?P<identity>a))?'}`, "it matches the empty string"},
		{`{regexp: 'x(?P<identity>a*)'}`, "group identity matches the empty string"},
		{`{regexp: '(?P<identity>a{254})'}`, "more than 253"},
		{`{regexp: '://user:(?P<identity>[^@]+)@'}`, "where a password stands"},
		{`{regexp: '://[^:]+\:(?:(?P<identity>\w+))@'}`, "where a password stands"},
		{`{regexp: '(?m)^password *= *(?P<identity>\w+)'}`, "where a password stands"},
		{`{regexp: '(?m)^\w+_SECRET=(?P<identity>\w+)'}`, "where a password stands"},
		{`{regexp: '://(?P<identity>[^@]+)@'}`, "would capture a password"},
		{`{regexp: '= *(?P<identity>[0-9a-f]+)\n'}`, "would capture a password"},
		{`{regexp: 'nova (?P<identity>.+)'}`, "matches too much"},
		{`{regexp: 'nova (?P<identity>\S{1,200})'}`, "matches too much"},
		{`{regexp: '` + strings.Repeat("a", 1025) + `'}`, "longer than 1024"},
		{`{ini: {section: s, key: k, regexp: '://u:(?P<identity>[^@]+)@'}}`, "ini.regexp: the group identity stands where a password stands"},
		{`{ini: {section: s, key: application_credential_secret}}`, "is by its name a secret"},
		{`{ini: {section: s}}`, "section and key are both needed"},
		{`{ini: {section: s, key: k, regexp: '(?P<identity>a)', urlUser: {schemes: [a]}}}`, "at most one"},
		{`{urlUser: {}}`, "at least one is needed"},
		{`{urlUser: {schemes: ['rabbit://']}}`, "no scheme of a URL"},
		{`{jsonPath: '{.password}'}`, "is by its name a secret"},
		{`{jsonPath: '{.a'}`, "jsonPath"},
		{`{regexp: '(?P<identity>a)', secretNames: ['[']}`, "is no pattern"},
		{`{regexp: '(?P<identity>a)', keys: []}`, "at least one name or pattern"},
		{`{regexp: '(?P<identity>a)', presence: Maybe}`, "neither Required nor Optional"},
	} {
		_, err := compile(t, tt.source)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "sources[0].") {
			t.Errorf("%s: %v", tt.source, err)
		}
	}
	if _, err := identity.Compile(rotationv1.CredentialGuardSpec{}); err == nil {
		t.Error("a guard without sources is compiled")
	}
}

// TestUsersOfTransportURLs: whatever users and passwords infra-operator may escape into a URL, the users come out and
// no more.
func TestUsersOfTransportURLs(t *testing.T) {
	extractor := shipped(t, "rabbitmquser")
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.StringMatching(`[!-~éß]{1,60}`)
		user, password := names.Draw(t, "user"), names.Draw(t, "password")
		var hosts []string
		for i := range rapid.IntRange(1, 3).Draw(t, "hosts") {
			hosts = append(hosts, fmt.Sprintf("%s:%s@rabbit-%d:5671", url.QueryEscape(user), url.QueryEscape(password), i))
		}
		conf := "[DEFAULT]\ntransport_url=rabbit://" + strings.Join(hosts, ",") + "/?ssl=1\n"
		got, err := extractor.Identities("nova-cell1-compute-config", data("01-nova.conf", conf))
		if err != nil || !slices.Equal(got, []string{user}) {
			t.Fatalf("%q: got %q, %v", conf, got, err)
		}
	})
}
