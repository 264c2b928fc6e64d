(ns analemma.xml
  "No pictures are drawn.")

(defn emit [& _])
