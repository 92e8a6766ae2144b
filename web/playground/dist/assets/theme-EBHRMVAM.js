try{let e=localStorage.getItem("lingserve.theme");(e==='"light"'||e==='"dark"')&&(document.documentElement.dataset.theme=e.slice(1,-1))}catch{}
