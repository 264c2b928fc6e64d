(ns analemma.svg
  "No pictures are drawn.")

(defn svg [& _])
