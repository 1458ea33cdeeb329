"""Files that deploy Stanchion: dashboards, alert rules, units and manifests, from templates in `files/`."""
