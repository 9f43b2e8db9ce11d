package engine

import "fmt"

// guardXML keeps web pages away from the HTTP port, as package problem does for
// our own API: to be on this machine is the permission there, and a page that
// somebody looks at is not. A request gets an answer to its query only
//
//   - without Origin, and without a Sec-Fetch-Site of another page: what a
//     browser sends for a page comes with one of them;
//   - on loopback, under a name of this machine: a page's own name that was made
//     to point here (DNS rebinding) is none.
//
// Nothing else is served: no /play, no dashboard, no terminal. That answers may
// be read by other origins (add_http_cors_header) is fixed to no in the profile.
func guardXML(a addresses) string {
	host := ""
	if a.http.IP.IsLoopback() {
		host = `<Host>regex:(?i)(localhost|([a-z0-9-]+\.)*localhost|127\.\d+\.\d+\.\d+|\[::1\])\.?(:\d+)?</Host>`
	}
	return fmt.Sprintf(`<http_handlers>
    <rule><url>/ping</url><handler><type>ping</type></handler></rule>
    <rule>
      <url>regex:/(query)?</url>
      <headers><Origin>regex:</Origin><Sec-Fetch-Site>regex:(none|same-origin)?</Sec-Fetch-Site>%s</headers>
      <handler><type>dynamic_query_handler</type><query_param_name>query</query_param_name></handler>
    </rule>
  </http_handlers>`, host)
}
