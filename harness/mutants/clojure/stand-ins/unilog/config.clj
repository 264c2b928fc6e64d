(ns unilog.config
  "Logs go nowhere.")

(defn start-logging! [& _])
