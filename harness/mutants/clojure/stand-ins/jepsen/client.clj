(ns jepsen.client
  "No client is called; Jepsen's own wants Java 21.")
